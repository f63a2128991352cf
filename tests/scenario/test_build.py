"""From words to objects: every parameter of every kind arrives, under its own name, and every legal value is taken."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel

from sim import mobility as movers
from sim.attack.hindsight import Hindsight, PathAttack, SmoothingAttack
from sim.attack.parameters import CustomAttack
from sim.belief.cross_validated import CrossValidated
from sim.belief.estimated_profile import EstimatedProfile, EstimatedProfileParameters
from sim.belief.fixed_profile import FixedProfile, FixedProfileParameters
from sim.belief.forgetting import Forgetting
from sim.belief.gravity_filter import GravityFilter, GravityFilterParameters
from sim.belief.home import HomeProfile, HomeProfileParameters
from sim.belief.markov_em import EstimatedMarkov, EstimatedMarkovParameters
from sim.belief.markov_filter import MarkovFilter, MarkovFilterParameters
from sim.belief.recursive_profile import RecursiveProfile, RecursiveProfileParameters
from sim.components.custom import Custom
from sim.components.imports import ComponentError
from sim.components.spec import Spec
from sim.lppm import coarse, designs, dummies, optimal, planar
from sim.lppm.cloaking import Cloaking, CloakingParameters
from sim.lppm.dropping import Dropping, DroppingParameters
from sim.lppm.dummies import Dummies, DummiesParameters
from sim.lppm.exponential import Exponential, ExponentialParameters
from sim.lppm.identity import Identity, IdentityParameters
from sim.lppm.location_hiding import LocationHiding, LocationHidingParameters
from sim.lppm.optimal_privacy import OptimalPrivacy, OptimalPrivacyParameters
from sim.lppm.optimal_quality import OptimalQuality, OptimalQualityParameters
from sim.lppm.outputs import Cells, CellsOrNothing
from sim.lppm.planar_geometric import PlanarGeometric, PlanarGeometricParameters
from sim.lppm.planar_laplace import PlanarLaplace, PlanarLaplaceParameters
from sim.lppm.snapping import Snapping, SnappingParameters
from sim.mobility import demand
from sim.mobility.demand.every_visit import EveryVisit, EveryVisitParameters
from sim.mobility.demand.periodic import Periodic, PeriodicParameters
from sim.mobility.demand.poisson import Poisson, PoissonParameters
from sim.mobility.recorded.replay import RecordedDays, Replay, ReplayParameters, Selection
from sim.mobility.recorded.tables import ACCEPTED
from sim.mobility.synthetic.commuters import Commuters, CommutersParameters
from sim.mobility.synthetic.favourites import Favourites, FavouritesParameters
from sim.mobility.synthetic.markov import MarkovChain, MarkovChainParameters
from sim.mobility.synthetic.taxis import Taxis, TaxisParameters
from sim.mobility.traces import Trace
from sim.mobility.training import Statistics, statistics
from sim.scenario import build, people
from sim.scenario.reading.schema_walk import members_of
from sim.scenario.reference import UNIONS
from sim.world import Grid, World, distance
from sim.world.distance import smoothing_kernel
from sim.world.distances.euclidean import EuclideanParameters
from sim.world.distances.manhattan import ManhattanParameters
from sim.world.distances.matrix import DistanceMatrixParameters
from sim.world.distances.road import RoadDistanceParameters
from sim.world.distances.semantic import SemanticDistanceParameters
from sim.world.grids.rectangle import RectangleParameters
from sim.world.grids.region import RegionParameters
from sim.world.grids.san_francisco import SanFranciscoParameters
from sim.world.roads.csv import RoadCsvParameters
from sim.world.roads.graphml import RoadGraphMLParameters
from sim.world.roads.lattice import LatticeParameters, lattice
from tests.support import MakeScenario

CONSTRUCTORS: dict[type[Spec], tuple[Callable[..., Any], set[str]]] = {
    SanFranciscoParameters: (Grid.san_francisco, set()),
    RegionParameters: (Grid.region, set()),
    RectangleParameters: (Grid.rectangle, set()),
    LatticeParameters: (lattice, {"grid", "rng"}),
    FavouritesParameters: (Favourites, {"grid", "roads", "seed"}),
    MarkovChainParameters: (MarkovChain, {"grid", "roads", "seed", "transition"}),
    CommutersParameters: (Commuters, {"grid", "roads", "seed"}),
    TaxisParameters: (Taxis, {"grid", "roads", "seed"}),
    ReplayParameters: (Replay, {"grid"}),
    Selection: (Selection, set()),
    EveryVisitParameters: (EveryVisit, set()),
    PeriodicParameters: (Periodic, set()),
    PoissonParameters: (Poisson, set()),
    FixedProfileParameters: (FixedProfile, {"profile"}),
    MarkovFilterParameters: (MarkovFilter, {"start_profile", "transition", "restart_s"}),
    EstimatedProfileParameters: (EstimatedProfile, {"initial_profile", "forget", "regularise"}),
    RecursiveProfileParameters: (RecursiveProfile, {"initial_profile"}),
    GravityFilterParameters: (
        GravityFilter,
        {"initial_profile", "distance", "transition", "counted", "count_transitions", "restart_s"},
    ),
    EstimatedMarkovParameters: (EstimatedMarkov, {"initial_profile", "transition", "restart_s"}),
    HomeProfileParameters: (HomeProfile, {"profile"}),
    Forgetting: (Forgetting, set()),
    ExponentialParameters: (Exponential, {"distance"}),
    LocationHidingParameters: (LocationHiding, {"distance"}),
    OptimalPrivacyParameters: (OptimalPrivacy, {"quality_distance", "privacy_distance"}),
    OptimalQualityParameters: (OptimalQuality, {"quality_distance", "metric"}),
    PlanarLaplaceParameters: (PlanarLaplace, {"grid", "distance"}),
    PlanarGeometricParameters: (PlanarGeometric, {"grid", "distance"}),
    IdentityParameters: (Identity, {"n_cells"}),
    CloakingParameters: (Cloaking, {"grid", "distance"}),
    SnappingParameters: (Snapping, {"grid", "distance"}),
    DroppingParameters: (Dropping, {"distance"}),
    DummiesParameters: (Dummies, {"n_cells"}),
}
"""What each kind is made with, and what the simulator adds to the parameters of the scenario."""

ELSEWHERE: dict[type[Spec], set[str]] = {
    EstimatedProfileParameters: {"initial", "forget", "regularise"},
    RecursiveProfileParameters: {"initial"},
    GravityFilterParameters: {"initial", "transitions"},
    OptimalQualityParameters: {"metric"},
    EstimatedMarkovParameters: {"initial"},
}
"""Parameters that reach the object under another name: tested one by one below."""

MADE_FROM_FILES_OR_NOTHING = {
    RoadCsvParameters, RoadGraphMLParameters, ManhattanParameters, EuclideanParameters, RoadDistanceParameters, DistanceMatrixParameters,
    SemanticDistanceParameters,
}  # fmt: skip


def kinds() -> Iterator[type[Spec]]:
    """Yield the models of all kinds of buildable components, but one's own."""
    for family, (_, union) in UNIONS.items():
        for member in members_of(union):
            if family not in {"training", "shift"} and not issubclass(member.annotation, Custom):
                yield member.annotation


def test_no_kind_is_forgotten_here() -> None:
    assert set(kinds()) | {Selection, Forgetting} == set(CONSTRUCTORS) | MADE_FROM_FILES_OR_NOTHING


@pytest.mark.parametrize("spec", CONSTRUCTORS, ids=lambda spec: spec.__name__)
def test_a_kind_has_the_parameters_of_its_class_and_its_defaults(spec: type[Spec]) -> None:
    make, added = CONSTRUCTORS[spec]
    taken = inspect.signature(make).parameters
    said = set(spec.model_fields) - {"kind"} - ELSEWHERE.get(spec, set())
    assert said | added == set(taken)
    for name in said:
        field = spec.model_fields[name]
        if field.is_required():
            continue
        default = field.get_default()
        if isinstance(default, BaseModel) or taken[name].default is inspect.Parameter.empty:
            continue
        default = tuple(default) if isinstance(default, list) else default
        assert taken[name].default == default, f"{name} has another default in code"


class Recorder:
    """Stands in for a class and keeps what it is called with."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    def __call__(self, *_: Any, **given: Any) -> Any:
        self.given = given
        return SimpleNamespace()


VALUES: dict[type[Spec], dict[str, Any]] = {
    SanFranciscoParameters: {"rows": 3, "cols": 4},
    RegionParameters: {"rows": 3, "cols": 4, "south": 1.0, "north": 2.0, "west": 3.0, "east": 4.0},
    RectangleParameters: {"rows": 3, "cols": 4, "width_km": 7.0, "height_km": 8.0},
    LatticeParameters: {
        "spacing_km": 0.7, "one_way_share": 0.1, "missing_share": 0.2, "speed_kmh": 20.0, "avenue_every": 3,
        "avenue_speed_kmh": 44.0,
    },
    FavouritesParameters: {"places": 3, "taste": 0.5, "explore": 0.2, "spread_km": 1.0, "visits_per_day": 9.0},
    MarkovChainParameters: {"stay": 0.1, "reach_km": 3.0, "step_s": 60},
    CommutersParameters: {
        "leisure_places": 2, "leisure_share": 0.1, "work_start_h": 7.0, "work_hours": 6.0, "jitter_h": 0.1,
    },
    TaxisParameters: {"hotspots": 2, "wait_s": 10.0, "shift_h": 8.0, "near_share": 0.1, "near_km": 1.0},
    PeriodicParameters: {"period_s": 60},
    PoissonParameters: {"per_hour": 4.0},
    EstimatedProfileParameters: {
        "fading": 0.1, "solver": "em", "gap": 1e-3, "start": "initial", "max_iterations": 5,
    },
    RecursiveProfileParameters: {"prior_reports": 2.0, "half_life_queries": 7.0},
    GravityFilterParameters: {
        "reaches_km": [3.0], "stays": [0.2], "prior_reports": 2.0, "half_life_queries": 5.0,
    },
    EstimatedMarkovParameters: {
        "prior_reports": 2.0, "prior_steps": 5.0, "refit_growth": 1.5, "iterations": 7, "window": 40,
    },
    HomeProfileParameters: {
        "from_h": 21.0, "until_h": 5.0, "away": 0.2, "utc_offset_h": -8.0, "half_life_days": 9.0,
    },
    ExponentialParameters: {"epsilon_per_km": 0.3, "quality_budget_km": None, "remap": False},
    LocationHidingParameters: {"reveal_probability": 0.3, "quality_budget_km": None, "remap": False},
    OptimalPrivacyParameters: {"quality_budget_km": 0.3, "solver": "simplex"},
    OptimalQualityParameters: {
        "epsilon_per_km": 0.3, "quality_budget_km": None, "spanner_dilation": 1.5, "solver": "simplex",
    },
    PlanarLaplaceParameters: {
        "epsilon_per_km": 0.3, "quality_budget_km": None, "discretise": True, "truncate": "renormalise", "remap": False,
    },
    PlanarGeometricParameters: {
        "epsilon_per_km": 0.3, "quality_budget_km": None, "metric": "manhattan", "remap": False,
    },
    CloakingParameters: {"k": 3, "population": 50, "quality_budget_km": None},
    SnappingParameters: {"cells_per_side": 3, "quality_budget_km": None, "remap": False},
    DroppingParameters: {"drop_probability": 0.3, "quality_budget_km": None, "drop_loss_km": 2.0},
    DummiesParameters: {"dummies": 2, "dummies_from": "uniform"},
}  # fmt: skip
"""A value for every parameter, none of them the default, but where it would exclude another one."""


@pytest.mark.parametrize("spec", VALUES, ids=lambda spec: spec.__name__)
def test_every_parameter_arrives(
    spec: type[Spec], make_scenario: MakeScenario, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = VALUES[spec]
    assert set(values) == set(spec.model_fields) - {"kind"} - ELSEWHERE.get(spec, set())
    recorder = Recorder()
    kind = next(iter(get_args(spec.model_fields["kind"].annotation)))
    made = spec.model_validate({"kind": kind} | {name: value for name, value in values.items() if value is not None})
    make = CONSTRUCTORS[spec][0]
    for module in (build, movers, demand, designs, optimal, planar, coarse, dummies, Grid):
        if hasattr(module, make.__name__):
            monkeypatch.setattr(module, make.__name__, recorder)
    scenario = make_scenario()
    known = statistics([], n_cells=world.grid.n_cells)
    for attempt in (
        lambda: build.build_grid(made),  # type: ignore[arg-type]
        lambda: build._roads(made, scenario, world.grid),  # type: ignore[arg-type]
        lambda: build.build_mobility(made, scenario, world),  # type: ignore[arg-type]
        lambda: build.build_demand(made),  # type: ignore[arg-type]
        lambda: build.build_belief(made, known, None, world),  # type: ignore[arg-type]
        lambda: build.build_design(made, world),  # type: ignore[arg-type]
    ):
        try:
            attempt()
        except (KeyError, UnboundLocalError):
            continue  # of another family
    assert {name: recorder.given[name] for name in values} == values


@pytest.fixture
def world() -> World:
    grid = Grid.rectangle(rows=4, cols=5, width_km=5.0, height_km=4.0)
    d_q, d_p = distance.manhattan(grid), distance.euclidean(grid)
    streets = lattice(grid, rng=np.random.default_rng(0))
    return World(grid=grid, roads=streets, quality_distance=d_q, privacy_distance=d_p)


def extremes(spec: type[Spec]) -> Iterator[tuple[str, float]]:
    """Yield the least and the greatest value of each parameter that has them."""
    for name, field in spec.model_fields.items():
        limits = [*field.metadata, *(extra for arg in get_args(field.annotation) for extra in _metadata(arg))]
        for limit in limits:
            match limit:
                case Ge(ge=value) | Le(le=value):
                    yield name, value  # type: ignore[misc]
                case Gt(gt=value):
                    yield name, value + 1e-9  # type: ignore[operator]
                case Lt(lt=value):
                    yield name, value - 1e-9  # type: ignore[operator]


def _metadata(annotation: Any) -> list[Any]:
    return [part for extra in getattr(annotation, "__metadata__", ()) for part in getattr(extra, "metadata", [extra])]


MOBILITIES = [FavouritesParameters, MarkovChainParameters, CommutersParameters, TaxisParameters]
DEMANDS = [PeriodicParameters, PoissonParameters]
BELIEFS = [
    EstimatedProfileParameters,
    RecursiveProfileParameters,
    EstimatedMarkovParameters,
    HomeProfileParameters,
]
DESIGNS = [
    ExponentialParameters,
    LocationHidingParameters,
    OptimalPrivacyParameters,
    OptimalQualityParameters,
    PlanarLaplaceParameters,
    PlanarGeometricParameters,
    SnappingParameters,
    DroppingParameters,
]
PARTS = [*BELIEFS, *DESIGNS]


@pytest.mark.parametrize("spec", [*MOBILITIES, *DEMANDS, *PARTS], ids=lambda spec: spec.__name__)
def test_what_the_scenario_allows_the_class_takes(spec: type[Spec], make_scenario: MakeScenario, world: World) -> None:
    tried = list(extremes(spec))
    assert {name for name, _ in tried} >= {
        name for name, value in VALUES[spec].items() if isinstance(value, int | float) and not isinstance(value, bool)
    }
    kind = get_args(spec.model_fields["kind"].annotation)[0]
    for name, value in tried:
        made: Any = spec.model_validate({"kind": kind, name: value})
        if spec in MOBILITIES:
            mobility = build.build_mobility(made, make_scenario(), world)
            walk = mobility.visits("user-001", np.random.default_rng(0))
            assert all(0 <= next(walk).cell < 20 for _ in range(10))
        elif spec in DEMANDS:
            build.build_demand(made)
        elif spec in BELIEFS:
            build.build_belief(made, statistics([], n_cells=20), None, world)
        else:
            build.build_design(made, world)(np.full(20, 1 / 20)).matrix()


# ------------------------------------------------------------------------------------------------ families


def test_distances_are_chosen_apart(make_scenario: MakeScenario, tmp_path: Path) -> None:
    grid = make_scenario().world.grid.model_dump()
    matrix = np.abs(np.subtract.outer(np.arange(20.0), np.arange(20.0)))
    np.save(tmp_path / "d.npy", matrix)
    cases: list[tuple[Any, str]] = [
        ("manhattan", "manhattan"),
        ("euclidean", "euclidean"),
        ("road", "road"),
        ({"kind": "matrix", "file": "d.npy"}, "file"),
    ]
    for privacy, kind in cases:
        said = {"grid": grid, "roads": "lattice", "privacy_distance": privacy, "quality_distance": "manhattan"}
        world = build.build_world(make_scenario(world=said).at(tmp_path, None))
        assert (world.privacy_distance.kind, world.quality_distance.kind) == (kind, "manhattan")
        assert (world.privacy_distance is world.quality_distance) == (kind == "manhattan")
    assert (world.privacy_distance.matrix_km == matrix).all()


def test_road_files_are_read_where_they_lie(make_scenario: MakeScenario, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("osmid,lat,lon\na,37.6,-122.45\nb,37.7,-122.45\n")
    (tmp_path / "e.csv").write_text("u,v,length_m,speed_mph\na,b,11000,30\nb,a,12000,\n")
    said = {"grid": "san_francisco", "roads": {"kind": "csv", "nodes": "n.csv", "edges": "e.csv"}}
    streets = build.build_world(make_scenario(world=said).at(tmp_path, None)).roads
    assert streets is not None
    assert sorted(edge["length_km"] for _, _, edge in streets.graph.edges(data=True)) == [11, 12]


def test_the_town_depends_on_the_seed_alone(make_scenario: MakeScenario) -> None:
    said = make_scenario().world.model_dump() | {"roads": "lattice"}
    one, same, other = (build.build_world(make_scenario(world=said, seed=seed)).roads for seed in (1, 1, 2))
    assert one is not None
    assert same is not None
    assert other is not None
    assert list(one.graph.edges) == list(same.graph.edges)
    assert list(one.graph.edges) != list(other.graph.edges)


def test_a_replay_gets_its_file_columns_and_selection(
    make_scenario: MakeScenario, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").touch()
    recorder = Recorder()
    monkeypatch.setattr(movers, "Replay", recorder, raising=False)
    said: dict[str, Any] = {
        "kind": "replay",
        "file": "t.csv",
        "columns": {"user": "who", "lat": "y"},
        "select": {"users": ["1"], "min_visits": 2, "first": 3, "last": 4, "exclude": {"first": 5, "exclude": {}}},
        "days": {"longest_silence_h": 1.5, "first": 2, "slot_s": 600},
        "visits": 6,
        "shuffle": True,
        "utc_offset_h": -8.0,
        "max_gap_s": 600,
    }
    made = ReplayParameters.model_validate(said)
    build.build_mobility(made, make_scenario().at(tmp_path, None), world)
    assert set(said) - {"kind"} == set(ReplayParameters.model_fields) - {"kind"}
    assert recorder.given == {
        "grid": world.grid,
        "file": tmp_path / "t.csv",
        "columns": {"user": "who", "lat": "y"},
        "select": Selection(
            users=("1",), min_visits=2, first=3, last=4, exclude=Selection(first=5, exclude=Selection())
        ),
        "days": RecordedDays(longest_silence_h=1.5, first=2, slot_s=600),
        "visits": 6,
        "shuffle": True,
        "utc_offset_h": -8.0,
        "max_gap_s": 600,
    }
    build.build_mobility(ReplayParameters(kind="replay", file="t.csv"), make_scenario().at(tmp_path, None), world)
    assert recorder.given["columns"] is None
    assert set(people.Columns.model_fields) == set(ACCEPTED)


def known() -> Statistics:
    return statistics([Trace("a", np.arange(4), np.array([0, 1, 0, 3]))], n_cells=5)


def test_beliefs_start_from_what_is_known(world: World) -> None:
    uniform = [0.2] * 5
    histogram = [0.5, 0.25, 0, 0.25, 0]
    fixed = build.build_belief(FixedProfileParameters(kind="fixed_profile"), known(), None, world)
    assert fixed.prior(0).tolist() == histogram
    for initial, expected in (("training", histogram), ("uniform", uniform)):
        spec = EstimatedProfileParameters.model_validate({"kind": "estimated_profile", "initial": initial})
        assert build.build_belief(spec, known(), None, world).prior(0) == pytest.approx(expected)
        recursive = RecursiveProfileParameters.model_validate({"kind": "recursive_profile", "initial": initial})
        assert build.build_belief(recursive, known(), None, world).prior(0) == pytest.approx(expected, abs=1e-3)
        markov = EstimatedMarkovParameters.model_validate({"kind": "markov_em", "initial": initial})
        assert build.build_belief(markov, known(), None, world).prior(0) == pytest.approx(expected, abs=1e-3)


def test_markov_em_starts_with_the_transitions_of_the_training_if_there_are_any(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(build, "EstimatedMarkov", recorder)
    trained, nothing = known(), statistics([], n_cells=5)
    for initial, data, expected in (
        ("training", trained, trained.transition),
        ("training", nothing, None),
        ("uniform", trained, None),
    ):
        spec = EstimatedMarkovParameters.model_validate({"kind": "markov_em", "initial": initial})
        build.build_belief(spec, data, 60, world)
        assert recorder.given["transition"] is expected
        assert recorder.given["restart_s"] == 60


def test_a_belief_is_regularised_as_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(build, "EstimatedProfile", recorder)
    data = statistics([], n_cells=20)
    spec = EstimatedProfileParameters.model_validate(
        {"kind": "estimated_profile", "regularise": {"prior_reports": 7, "smooth_km": 0.5}}
    )
    build.build_belief(spec, data, None, world)
    made = recorder.given["regularise"]
    expected = smoothing_kernel(world.quality_distance.matrix_km, 0.5)
    assert made.prior_reports == 7
    assert expected is not None
    assert made.kernel.tolist() == expected.tolist()
    build.build_belief(spec, data, None, world)
    assert recorder.given["regularise"].kernel is made.kernel  # one for all users


def test_candidates_forget_as_said_and_so_do_their_scores(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(build, "CrossValidated", recorder)
    data = statistics([], n_cells=20)
    for forget, half_life in (("none", None), ({"half_life_queries": 9}, 9), ({"window": 9}, None)):
        spec = EstimatedProfileParameters.model_validate(
            {"kind": "estimated_profile", "regularise": "cross_validated", "forget": forget}
        )
        build.build_belief(spec, data, None, world)
        assert recorder.given["half_life_queries"] == half_life
        assert len(recorder.given["candidates"]) == len(build.CANDIDATES)
    monkeypatch.undo()
    assert isinstance(build.build_belief(spec, data, None, world), CrossValidated)


def test_a_recursive_profile_may_never_forget(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    recorder = Recorder()
    monkeypatch.setattr(build, "RecursiveProfile", recorder)
    for said, given in (("none", None), (3, 3)):
        spec = RecursiveProfileParameters.model_validate({"kind": "recursive_profile", "half_life_queries": said})
        build.build_belief(spec, known(), None, world)
        assert recorder.given["half_life_queries"] == given


def test_gravity_is_built_from_world_and_training(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(build, "GravityFilter", recorder)

    def given(statistics: Statistics, world: World, **said: Any) -> dict[str, Any]:
        spec = GravityFilterParameters.model_validate({"kind": "gravity_filter", **said})
        build.build_belief(spec, statistics, 60, world)
        return recorder.given

    plain = dataclasses.replace(world, roads=None)
    nothing = statistics([], n_cells=20)
    blank = given(nothing, plain)
    assert blank["distance"] is world.quality_distance
    assert (blank["transition"], blank["counted"], blank["restart_s"]) == (None, None, 60)
    assert blank["initial_profile"].tolist() == [0.05] * 20
    seen = statistics([Trace("a", np.arange(5), np.array([0, 1, 0, 3, 3]))], n_cells=20)
    trained = given(seen, plain)
    assert trained["initial_profile"] is seen.profile
    assert trained["transition"] is seen.transition
    assert trained["counted"][:5].tolist() == [2, 1, 0, 1, 0]
    assert given(seen, plain, half_life_queries="none")["half_life_queries"] is None
    assert not trained["count_transitions"]
    learned = given(seen, plain, transitions="learned")
    assert learned["count_transitions"]
    assert learned["transition"] is seen.transition
    assert given(seen, plain, transitions="none")["transition"] is None
    assert given(seen, plain, initial="uniform")["initial_profile"].tolist() == [0.05] * 20
    with pytest.raises(ValueError, match="`initial: roads` needs roads, found none"):
        given(seen, plain, initial="roads")
    by_road = given(seen, world, initial="roads")
    assert by_road["distance"].kind == "road"
    assert given(seen, world)["distance"] is by_road["distance"]  # one for all users
    assert by_road["initial_profile"].sum() == pytest.approx(1)
    assert world.roads is not None
    assert set(np.flatnonzero(by_road["initial_profile"])) == set(world.roads.cells())


def test_a_belief_forgets_as_said(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    recorder = Recorder()
    monkeypatch.setattr(build, "EstimatedProfile", recorder)
    tests: dict[str, Any] = {"adaptive": True, "queries_per_false_alarm": 50.0, "recent": 7}
    cases: list[tuple[Any, Forgetting | None]] = [
        ("none", None),
        ({"half_life_queries": 3, **tests}, Forgetting(half_life_queries=3.0, **tests)),
        ({"half_life_days": 1e-6}, Forgetting(half_life_days=1e-6)),
        ({"half_life_days": 36525.0}, Forgetting(half_life_days=36525.0)),
        ({"window": 9}, Forgetting(window=9)),
        ({"adaptive": True, "queries_per_false_alarm": 2}, Forgetting(adaptive=True, queries_per_false_alarm=2.0)),
    ]
    for said, forget in cases:
        spec = EstimatedProfileParameters.model_validate({"kind": "estimated_profile", "forget": said})
        build.build_belief(spec, known(), None, world)
        assert recorder.given["forget"] == forget


@pytest.mark.parametrize(("restart_s", "later"), [(None, [1, 0, 0, 0, 0]), (10, [0.5, 0.25, 0, 0.25, 0])])
def test_markov_beliefs_restart_as_said(restart_s: int | None, later: list[float], world: World) -> None:
    belief = build.build_belief(MarkovFilterParameters(kind="markov_filter"), known(), restart_s, world)
    assert belief.prior(0).tolist() == [0.5, 0.25, 0, 0.25, 0]
    belief.observe(0, np.eye(5)[1])
    assert belief.prior(1).tolist() == [1, 0, 0, 0, 0], "from cell 1 she always went to 0"
    assert belief.prior(12).tolist() == later


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"kind": "exponential"}, {"epsilon_per_km": 1.0, "quality_budget_km": None}),
        ({"kind": "exponential", "epsilon_per_km": 0}, {"epsilon_per_km": 0.0, "quality_budget_km": None}),
        ({"kind": "exponential", "quality_budget_km": 0}, {"epsilon_per_km": None, "quality_budget_km": 0.0}),
        ({"kind": "location_hiding"}, {"reveal_probability": 0.5, "quality_budget_km": None}),
        ({"kind": "location_hiding", "reveal_probability": 0}, {"reveal_probability": 0.0, "quality_budget_km": None}),
        ({"kind": "location_hiding", "quality_budget_km": 2}, {"reveal_probability": None, "quality_budget_km": 2.0}),
    ],
)
def test_a_design_has_its_parameter_or_its_budget_or_the_default(
    said: dict[str, Any], expected: dict[str, Any], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    exponential = said["kind"] == "exponential"
    monkeypatch.setattr(designs, "Exponential" if exponential else "LocationHiding", recorder)
    spec = (ExponentialParameters if exponential else LocationHidingParameters).model_validate(said)
    build.build_design(spec, world)
    assert recorder.given == {"distance": world.quality_distance, "remap": True} | expected


def test_an_attack_decides_by_the_privacy_distance_with_her_own_belief(
    make_scenario: MakeScenario, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(build, "OptimalAttack", recorder)
    for expected in (True, False):
        scenario = make_scenario(attacks=["markov"], markov_restart="daily", record={"expected": expected})
        build.build_attack(scenario.attacks[0], world, {"ann": known()}, scenario)
        assert recorder.given["distance"] is world.privacy_distance
        assert recorder.given["foresee"] is expected
        belief = recorder.given["belief_of"]("ann")
        assert isinstance(belief, MarkovFilter)
        assert belief is not recorder.given["belief_of"]("ann"), "each user is followed apart"


@pytest.mark.parametrize("make", [SmoothingAttack, PathAttack])
def test_hindsight_has_the_parameters_of_its_attacks_and_their_defaults(
    make: Callable[..., Any], make_scenario: MakeScenario, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = inspect.signature(make).parameters
    defaults = Hindsight().model_dump()
    assert {name: taken[name].default for name in defaults} == defaults | {"lags": tuple(defaults["lags"])}
    recorder = Recorder()
    monkeypatch.setattr(build, make.__name__, recorder)
    decides = "path" if make is PathAttack else "optimal"
    for hindsight, given in (({"lags": [7], "final": False}, ([7], False)), (None, ([], False))):
        if hindsight is None and decides == "optimal":
            continue
        said = {"name": "x", "belief": "markov_filter", "decides": decides, "hindsight": hindsight}
        scenario = make_scenario(attacks=[said], record={"posterior": True, "expected": False})
        build.build_attack(scenario.attacks[0], world, {"ann": known()}, scenario)
        assert (recorder.given["lags"], recorder.given["final"]) == given
        assert (recorder.given["tell"], recorder.given["foresee"]) == (True, False)
        assert recorder.given.get("distance", world.privacy_distance) is world.privacy_distance
        assert isinstance(recorder.given["belief_of"]("ann"), MarkovFilter)


def test_who_assumes_a_design_shares_her_beliefs_with_the_attack(
    make_scenario: MakeScenario, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, inner = Recorder(), Recorder()
    monkeypatch.setattr(build, "AssumingAttack", recorder)
    monkeypatch.setattr(build, "OptimalAttack", inner)
    scenario = make_scenario(attacks=[{"kind": "markov", "assumes": {"kind": "exponential", "epsilon_per_km": 3}}])
    cells, others = Cells(20), CellsOrNothing(20)
    for space, readable in ((None, True), (cells, True), (others, False)):
        build.build_attack(scenario.attacks[0], world, {"ann": known()}, scenario, space=space)
        assert recorder.given["readable"] is readable
        assert isinstance(recorder.given["design"], Exponential)
        assert recorder.given["belief_of"]("ann") is inner.given["belief_of"]("ann")


def test_face_value_has_the_profile_and_the_outputs(
    make_scenario: MakeScenario, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(build, "FaceValueAttack", recorder)
    scenario = make_scenario(attacks=["face-value"])
    others = CellsOrNothing(20)
    build.build_attack(scenario.attacks[0], world, {"ann": known()}, scenario, space=others)
    assert recorder.given["space"] is others
    assert recorder.given["distance"] is world.privacy_distance
    assert recorder.given["foresee"] is True
    assert recorder.given["profile_of"]("ann").tolist() == known().profile.tolist()


# ------------------------------------------------------------------------------------------------ one's own

OWN = """
class Own:
    def __init__(self, **given):
        self.given = given

    def users(self, count): ...
    def visits(self, user, rng): ...
    def queries(self, visits, rng): ...
    def prior(self, time_s): ...
    def observe(self, *report): ...
    def __call__(self, prior): ...
"""


def test_ones_own_components_get_the_scenarios_parameters_and_their_surroundings(
    make_scenario: MakeScenario, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_parts.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("LPPM_SIM_ALLOW_CODE", str(tmp_path))
    spec = Custom.model_validate({"kind": "own_parts:Own", "x": 3, "name": "n", "deep": {"a": [1]}})
    scenario = make_scenario()
    mine = {"x": 3, "name": "n", "deep": {"a": [1]}}
    made: Any = build.build_mobility(spec, scenario, world)
    assert made.given == {"world": world, "seed": 3} | mine
    made = build.build_demand(spec)
    assert made.given == mine
    data = known()
    made = build.build_belief(spec, data, 60, world)
    assert made.given == {"statistics": data, "restart_s": 60} | mine
    made = build.build_design(spec, world)
    assert made.given == {"world": world} | mine
    attack = CustomAttack.model_validate({"kind": "own_parts:Own", "name": "n", "x": 3})
    made = build.build_attack(attack, world, {"ann": data}, scenario)
    assert made.given.keys() == {"world", "statistics_of", "x"}
    assert made.given["statistics_of"]("ann") is data


def test_ones_own_parameters_cannot_hide_what_the_simulator_gives(make_scenario: MakeScenario, world: World) -> None:
    spec = Custom.model_validate({"kind": "own_parts:Own", "seed": 3})
    with pytest.raises(ComponentError, match="own_parts:Own: seed is given to it by the simulator"):
        build.build_mobility(spec, make_scenario(), world)
