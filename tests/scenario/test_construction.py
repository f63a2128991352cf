"""Construction of components from a validated scenario."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from annotated_types import Ge, Gt, Le, Lt

from sim.belief.fixed_profile import FixedProfileParameters
from sim.belief.markov_filter import MarkovFilterParameters
from sim.checks.bench import Bench
from sim.components.custom import Custom
from sim.components.files import Place
from sim.components.imports import ComponentError
from sim.components.registry import METHODS, Parameters, registry
from sim.lppm.outputs import CellsOrNothing
from sim.lppm.parameters import CalibratedParameters
from sim.mobility.parameters import CustomMobility, MobilityParameters
from sim.mobility.recorded.columns import ACCEPTED
from sim.mobility.recorded.replay import Columns
from sim.mobility.statistics import Statistics, statistics
from sim.mobility.traces import Trace
from sim.scenario.lppms import CustomLPPM
from tests.support import MakeScenario

KNOWN = [0.5, 0.25, 0, 0.25, 0]


def known() -> Statistics:
    """Return the statistics of a short trace; its histogram is `KNOWN`."""
    return statistics([Trace("a", np.arange(4), np.array([0, 1, 0, 3]))], n_cells=5)


def shipped(*families: str) -> list[type[Parameters]]:
    """Return the parameter models of all components of families, without custom ones."""
    return [model for family in families for model in registry.models(family) if not model.is_custom]


def extremes(model: type[Parameters]) -> Iterator[tuple[str, float]]:
    """Yield the smallest and the largest value of each parameter with limits."""
    for name, field in model.model_fields.items():
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


UNBUILT = {"k", "population", "dummies"}
"""Parameters with a further limit, the number of users or cells."""


@pytest.mark.parametrize("model", shipped("mobility", "demand", "belief", "design"), ids=lambda model: model.__name__)
def test_every_value_that_a_scenario_allows_can_be_built(model: type[Parameters]) -> None:
    bench = Bench()
    for name, value in extremes(model):
        if model.kinds() == ("replay",) or name in UNBUILT:
            continue
        listed = "list" in str(model.model_fields[name].annotation)
        built = bench.build(model.model_validate({name: [value] if listed else value}))
        if issubclass(model, MobilityParameters):
            walk = built.visits("user-001", np.random.default_rng(0))
            assert all(0 <= next(walk).cell < bench.n_cells for _ in range(10))
        if model in registry.models("design"):
            assert built(np.full(bench.n_cells, 1 / bench.n_cells)).matrix().sum() == pytest.approx(bench.n_cells)


@pytest.mark.parametrize("model", shipped("design"), ids=lambda model: model.__name__)
def test_a_design_has_its_strength_or_its_budget_or_the_default(model: type[Parameters]) -> None:
    if not issubclass(model, CalibratedParameters):
        return
    default, given, budgeted = (
        model.model_validate(settings) for settings in ({}, {model.strength_name: 1}, {"quality_budget_km": 2})
    )
    assert (default.strength, default.budget_km) == (model.default_strength, None)
    assert (given.strength, given.budget_km) == (1, None)
    assert (budgeted.strength, budgeted.budget_km) == (None, 2.0)
    assert budgeted.uses_prior is True or model.kinds() == ("dropping",)
    with pytest.raises(ValueError, match=f"`{model.strength_name}`.*`quality_budget_km`"):
        model.model_validate({model.strength_name: 1, "quality_budget_km": 2})


@pytest.mark.parametrize("model", shipped("design"), ids=lambda model: model.__name__)
def test_parameters_and_class_agree_on_whether_the_prior_matters(model: type[Parameters]) -> None:
    bench = Bench()
    for settings in ({}, {"remap": False}, {"quality_budget_km": 1.0}, {"discretise": False}):
        if not settings.keys() <= model.model_fields.keys():
            continue
        parameters: Any = model.model_validate(settings)
        assert bench.build(parameters).uses_prior is parameters.uses_prior


def test_the_two_distances_are_independent(make_scenario: MakeScenario, tmp_path: Path) -> None:
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
        settings = {"grid": grid, "roads": "lattice", "privacy_distance": privacy, "quality_distance": "manhattan"}
        world = make_scenario(world=settings).at(tmp_path, None).build_world()
        assert (world.privacy_distance.kind, world.quality_distance.kind) == (kind, "manhattan")
        assert (world.privacy_distance is world.quality_distance) == (kind == "manhattan")
    assert (world.privacy_distance.matrix_km == matrix).all()


def test_road_files_are_relative_to_the_scenario(make_scenario: MakeScenario, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("osmid,lat,lon\na,37.6,-122.45\nb,37.7,-122.45\n")
    (tmp_path / "e.csv").write_text("u,v,length_m,speed_mph\na,b,11000,30\nb,a,12000,\n")
    settings = {"grid": "san_francisco", "roads": {"kind": "csv", "nodes": "n.csv", "edges": "e.csv"}}
    roads = make_scenario(world=settings).at(tmp_path, None).build_world().roads
    assert roads is not None
    assert sorted(edge["length_km"] for _, _, edge in roads.graph.edges(data=True)) == [11, 12]


def test_generated_roads_depend_on_the_seed_alone(make_scenario: MakeScenario) -> None:
    settings = make_scenario().world.model_dump() | {"roads": "lattice"}
    one, same, other = (make_scenario(world=settings, seed=seed).build_world().roads for seed in (1, 1, 2))
    assert one is not None
    assert same is not None
    assert other is not None
    assert list(one.graph.edges) == list(same.graph.edges)
    assert list(one.graph.edges) != list(other.graph.edges)


def test_the_columns_of_a_replay_are_those_of_a_trace_file() -> None:
    assert set(Columns.model_fields) == set(ACCEPTED)


def test_beliefs_start_from_the_statistics_or_uniform() -> None:
    world = Bench().world
    assert FixedProfileParameters().build(known(), None, world).prior(0).tolist() == KNOWN
    for initial, expected in (("training", KNOWN), ("uniform", [0.2] * 5)):
        for kind in ("estimated_profile", "recursive_profile", "markov_em"):
            parameters: Any = registry.kinds("belief")[kind].model_validate({"initial": initial})
            assert parameters.build(known(), None, world).prior(0) == pytest.approx(expected, abs=1e-3)


def test_markov_em_starts_with_the_training_transitions_if_available() -> None:
    world, trained, nothing = Bench().world, known(), statistics([], n_cells=5)
    model = registry.kinds("belief")["markov_em"]
    starts = {}
    for initial, data in (("training", trained), ("training", nothing), ("uniform", trained)):
        parameters: Any = model.model_validate({"initial": initial})
        starts[initial, data is trained] = parameters.build(data, 60, world).transition
    assert not np.allclose(starts["training", True], starts["uniform", True])
    assert starts["training", True][1] == pytest.approx([1, 0, 0, 0, 0], abs=0.01)
    assert starts["uniform", True] == pytest.approx(starts["training", False])


@pytest.mark.parametrize(("restart_s", "later"), [(None, [1, 0, 0, 0, 0]), (10, KNOWN)])
def test_markov_beliefs_restart(restart_s: int | None, later: list[float]) -> None:
    belief = MarkovFilterParameters().build(known(), restart_s, Bench().world)
    assert belief.prior(0).tolist() == KNOWN
    belief.observe(0, np.eye(5)[1])
    assert belief.prior(1).tolist() == [1, 0, 0, 0, 0], "from cell 1 the user always went to 0"
    assert belief.prior(12).tolist() == later


def test_regularised_beliefs_of_all_users_share_one_kernel() -> None:
    bench = Bench()
    parameters: Any = registry.kinds("belief")["estimated_profile"].model_validate({"regularise": {"smooth_km": 0.5}})
    one, two = (parameters.build(bench.statistics, None, bench.world) for _ in range(2))
    assert one._kernel is two._kernel is bench.world.smoothing_kernel(0.5)
    plain: Any = registry.kinds("belief")["estimated_profile"].model_validate({})
    assert plain.build(bench.statistics, None, bench.world)._kernel is None


@pytest.mark.parametrize("kind", ["sporadic", "markov", "smoothing", "face-value"])
def test_attacks_use_the_privacy_distance(kind: str, make_scenario: MakeScenario) -> None:
    grid = make_scenario().world.grid.model_dump()
    scenario = make_scenario(attacks=[kind], world={"grid": grid, "privacy_distance": "euclidean"})
    world = scenario.build_world()
    attack: Any = scenario.attacks[0].build(scenario.attack_context(world, {"ann": known()}))
    assert attack._distance is world.privacy_distance
    assert world.privacy_distance is not world.quality_distance


def test_an_attack_that_assumes_a_design_reads_only_outputs_of_that_design(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(attacks=[{"kind": "markov", "assumes": {"kind": "exponential", "epsilon_per_km": 3}}])
    world = scenario.build_world()
    for space, readable in ((None, True), (CellsOrNothing(20), False)):
        attack: Any = scenario.attacks[0].build(scenario.attack_context(world, {"ann": known()}, space=space))
        assert attack._readable is readable
        assert attack._belief_of("ann") is attack._attack._belief_of("ann"), "one belief per user"


CUSTOM = """
class Own:
    def __init__(self, **given):
        self.given = given

    def users(self, count): ...
    def visits(self, user, rng): ...
    def queries(self, visits, rng): ...
    def prior(self, time_s): ...
    def observe(self, *report): ...
    def __call__(self, prior): ...
    def channel(self, time_s): ...
"""


def test_custom_components_get_the_scenario_keys_and_the_simulator_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_parts.py").write_text(CUSTOM)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("LPPM_SIM_ALLOW_CODE", str(tmp_path))
    bench = Bench()
    settings = {"x": 3, "deep": {"a": [1]}}
    for family in METHODS:
        model: type[Parameters] = CustomLPPM if family == "lppm" else registry.kinds(family)["module:Class"]
        assert issubclass(model, Custom)
        chosen = model.model_validate({"kind": "own_parts:Own"} | bench.required(family) | settings)
        if isinstance(chosen, CustomLPPM):
            built: Any = chosen.build(bench.world, bench.statistics)
        else:
            built = bench.build(chosen)
        assert built.given.keys() == bench.given(family).keys() | settings.keys()
        assert {key: built.given[key] for key in settings} == settings
        assert all(built.given[key] is value for key, value in bench.given(family).items() if key == "world")


def test_scenario_keys_cannot_replace_simulator_arguments() -> None:
    parameters = CustomMobility.model_validate({"kind": "own_parts:Own", "seed": 3})
    with pytest.raises(ComponentError, match=r"^own_parts:Own: seed\b"):
        parameters.build(Bench().world, 1, Place())
