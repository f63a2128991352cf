"""From the words of a scenario to objects: one function per family of components."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, cast

import numpy as np

from sim import mobility as movers
from sim.attack import (
    AssumingAttack,
    FaceValueAttack,
    IdentificationAttack,
    OptimalAttack,
    PathAttack,
    SmoothingAttack,
)
from sim.belief import (
    CrossValidated,
    EstimatedMarkov,
    EstimatedProfile,
    FixedProfile,
    Forgetting,
    GravityFilter,
    HomeProfile,
    InForce,
    MarkovFilter,
    RecursiveProfile,
    Regularisation,
    smoothing_kernel,
)
from sim.components.custom import ComponentError, construct
from sim.components.kinds import Custom
from sim.errors import input_errors
from sim.interfaces import Attack, Belief, Demand, Design, DesignCapabilities, FloatArray, Mobility, OutputSpace
from sim.lppm import coarse, designs, dummies, optimal, planar
from sim.lppm.outputs import Cells
from sim.mobility import demand as demands
from sim.mobility.recorded import replay
from sim.mobility.training import Statistics
from sim.rng import stream
from sim.scenario import beliefs, people, protection
from sim.scenario import designs as design_specs
from sim.scenario import world as worlds
from sim.scenario.models import Scenario
from sim.scenario.reading.validation import Spec
from sim.world import World, distance
from sim.world.distance import Distance
from sim.world.grid import Grid
from sim.world.roads.csv import read_csv
from sim.world.roads.graph import Roads
from sim.world.roads.graphml import read_graphml
from sim.world.roads.lattice import lattice


def _parameters(spec: Spec) -> dict[str, Any]:
    """Return what a component's constructor takes: everything the scenario says but the kind."""
    return {name: getattr(spec, name) for name in type(spec).model_fields if name != "kind"}


def _custom(spec: Custom, family: str, **given: Any) -> Any:
    said = spec.model_extra or {}
    if taken := sorted(said.keys() & given.keys()):
        raise ComponentError(
            f"{spec.kind}: {', '.join(taken)} is given to it by the simulator, found it in the scenario"
        )
    return construct(spec.kind, family, spec.code, **given, **said)


def build_world(scenario: Scenario) -> World:
    """Build grid, roads and distances."""
    spec = scenario.world
    grid = build_grid(spec.grid)
    streets = None if spec.roads is None else _roads(spec.roads, scenario, grid)
    privacy = _distance(spec.privacy_distance, scenario, grid, streets)
    same = spec.privacy_distance == spec.quality_distance
    quality = privacy if same else _distance(spec.quality_distance, scenario, grid, streets)
    return World(grid=grid, roads=streets, privacy_distance=privacy, quality_distance=quality)


def build_grid(spec: worlds.GridSpec) -> Grid:
    """Return the cells."""
    make: dict[type[Spec], Callable[..., Grid]] = {
        worlds.SanFrancisco: Grid.san_francisco,
        worlds.Region: Grid.region,
        worlds.Rectangle: Grid.rectangle,
    }
    return make[type(spec)](**_parameters(spec))


def _roads(spec: worlds.RoadsSpec, scenario: Scenario, grid: Grid) -> Roads:
    match spec:
        case worlds.Lattice():
            return lattice(grid, rng=stream(scenario.seed, "roads"), **_parameters(spec))
        case worlds.RoadCsv():
            return read_csv(scenario.locate(spec.nodes), scenario.locate(spec.edges), grid)
        case worlds.RoadGraphML():
            return read_graphml(scenario.locate(spec.file), grid)


def _distance(spec: worlds.DistanceSpec, scenario: Scenario, grid: Grid, streets: Roads | None) -> Distance:
    match spec:
        case worlds.Manhattan():
            return distance.manhattan(grid)
        case worlds.Euclidean():
            return distance.euclidean(grid)
        case worlds.DistanceMatrix():
            return distance.from_file(scenario.locate(spec.file), grid.n_cells)
        case worlds.SemanticDistance():
            labels = distance.read_labels(scenario.locate(spec.labels), grid.n_cells)
            return distance.semantic(labels, apart_km=spec.apart_km)
        case worlds.RoadDistance():
            if streets is None:
                raise ValueError("road distance needs roads, found none")
            return distance.road(grid, streets)


def build_mobility(spec: people.MobilitySpec, scenario: Scenario, world: World) -> Mobility:
    """Build where people go."""
    match spec:
        case people.FavouritesSpec():
            return movers.Favourites(grid=world.grid, roads=world.roads, seed=scenario.seed, **_parameters(spec))
        case people.MarkovChainSpec():
            return movers.MarkovChain(grid=world.grid, roads=world.roads, seed=scenario.seed, **_parameters(spec))
        case people.CommutersSpec() | people.TaxisSpec():
            if world.roads is None:
                raise ValueError(f"{spec.kind} live on roads, found none")
            make: Any = movers.Commuters if isinstance(spec, people.CommutersSpec) else movers.Taxis
            mobility: Mobility = make(grid=world.grid, roads=world.roads, seed=scenario.seed, **_parameters(spec))
            return mobility
        case people.ReplaySpec():
            said = _parameters(spec) | {"file": scenario.locate(spec.file), "select": _selection(spec.select)}
            said["columns"] = {name: column for name, column in spec.columns if column is not None} or None
            said["days"] = None if spec.days is None else replay.RecordedDays(**spec.days.model_dump())
            return movers.Replay(grid=world.grid, **said)
        case Custom():
            return cast(Mobility, _custom(spec, "mobility", world=world, seed=scenario.seed))


def _selection(spec: people.Selection) -> replay.Selection:
    return replay.Selection(
        users=None if spec.users is None else tuple(spec.users),
        min_visits=spec.min_visits,
        first=spec.first,
        last=spec.last,
        exclude=None if spec.exclude is None else _selection(spec.exclude),
    )


def build_demand(spec: people.DemandSpec) -> Demand:
    """Build when people query."""
    match spec:
        case people.EveryVisitSpec():
            return demands.EveryVisit()
        case people.PeriodicSpec():
            return demands.Periodic(**_parameters(spec))
        case people.PoissonSpec():
            return demands.Poisson(**_parameters(spec))
        case Custom():
            return cast(Demand, _custom(spec, "demand"))


CANDIDATES = ((1.0, 0.0), (3.0, 0.0), (10.0, 0.0), (3.0, 0.5))
"""The candidates of `regularise: cross_validated`: prior_reports and smooth_km."""


def build_belief(spec: beliefs.BeliefSpec, statistics: Statistics, restart_s: int | None, world: World) -> Belief:
    """Build what somebody believes about a user, from the statistics she has."""
    match spec:
        case beliefs.FixedProfileSpec():
            return FixedProfile(profile=statistics.profile)
        case beliefs.MarkovFilterSpec():
            return MarkovFilter(
                start_profile=statistics.start_profile, transition=statistics.transition, restart_s=restart_s
            )
        case beliefs.EstimatedProfileSpec() | beliefs.RecursiveProfileSpec() | beliefs.EstimatedMarkovSpec():
            return _learning(spec, statistics, restart_s, world)
        case beliefs.GravityFilterSpec():
            return _gravity(spec, statistics, restart_s, world)
        case beliefs.HomeProfileSpec():
            return HomeProfile(profile=statistics.profile, **_parameters(spec))
        case Custom():
            return cast(Belief, _custom(spec, "belief", statistics=statistics, restart_s=restart_s))


def _learning(
    spec: beliefs.EstimatedProfileSpec | beliefs.RecursiveProfileSpec | beliefs.EstimatedMarkovSpec,
    statistics: Statistics,
    restart_s: int | None,
    world: World,
) -> Belief:
    n_cells = statistics.n_cells
    said = _parameters(spec)
    trained = said.pop("initial") == "training"
    said["initial_profile"] = statistics.profile if trained else np.full(n_cells, 1 / n_cells)
    match spec:
        case beliefs.EstimatedProfileSpec():
            return _estimated(spec, said, world)
        case beliefs.RecursiveProfileSpec():
            if spec.half_life_queries == "none":
                said["half_life_queries"] = None
            return RecursiveProfile(**said)
        case beliefs.EstimatedMarkovSpec():
            counted = trained and statistics.n_transitions > 0
            return EstimatedMarkov(transition=statistics.transition if counted else None, restart_s=restart_s, **said)


def _estimated(spec: beliefs.EstimatedProfileSpec, said: dict[str, Any], world: World) -> Belief:
    forget = Forgetting(**_parameters(spec.forget)) if isinstance(spec.forget, Spec) else None
    said["forget"] = forget
    del said["regularise"]
    match spec.regularise:
        case "none":
            return EstimatedProfile(**said)
        case "cross_validated":
            candidates = [
                EstimatedProfile(**said, regularise=_regularisation(prior_reports, smooth_km, world))
                for prior_reports, smooth_km in CANDIDATES
            ]
            half_life = None if forget is None else forget.half_life_queries
            return CrossValidated(candidates=candidates, half_life_queries=half_life)
        case beliefs.RegulariseSpec(prior_reports=prior_reports, smooth_km=smooth_km):
            return EstimatedProfile(**said, regularise=_regularisation(prior_reports, smooth_km, world))


def _regularisation(prior_reports: float, smooth_km: float, world: World) -> Regularisation:
    return Regularisation(prior_reports=prior_reports, kernel=_kernel(world.quality_distance, smooth_km))


@lru_cache(maxsize=8)
def _kernel(distance: Distance, smooth_km: float) -> FloatArray | None:
    """Return the kernel, one for all users."""
    return smoothing_kernel(distance.matrix_km, smooth_km)


def _gravity(
    spec: beliefs.GravityFilterSpec, statistics: Statistics, restart_s: int | None, world: World
) -> GravityFilter:
    said = _parameters(spec)
    counts = said.pop("transitions")
    trained = counts != "none" and statistics.n_transitions > 0
    if spec.half_life_queries == "none":
        said["half_life_queries"] = None
    match said.pop("initial"):
        case "training":
            initial = statistics.profile
        case "uniform":
            initial = np.full(statistics.n_cells, 1 / statistics.n_cells)
        case "roads":
            if world.roads is None:
                raise ValueError("`initial: roads` needs roads, found none: add them to the world")
            initial = world.roads.share_of_cells(statistics.n_cells)
    return GravityFilter(
        initial_profile=initial,
        distance=_on_the_ground(world),
        transition=statistics.transition if trained else None,
        counted=statistics.counted if trained else None,
        count_transitions=counts == "learned",
        restart_s=restart_s,
        **said,
    )


@lru_cache(maxsize=2)
def _on_the_ground(world: World) -> Distance:
    """Return how far people have to go: along the roads, where there are any."""
    return world.quality_distance if world.roads is None else distance.road(world.grid, world.roads)


def build_design(spec: design_specs.DesignSpec, world: World) -> Design:  # noqa: PLR0911 - a case for each kind
    """Build how a belief becomes a channel."""
    grid, quality = world.grid, world.quality_distance
    match spec:
        case design_specs.ExponentialSpec():
            return designs.Exponential(distance=quality, **_one_given(spec, "epsilon_per_km", default=1.0))
        case design_specs.LocationHidingSpec():
            return designs.LocationHiding(distance=quality, **_one_given(spec, "reveal_probability", default=0.5))
        case design_specs.PlanarLaplaceSpec():
            return planar.PlanarLaplace(grid=grid, distance=quality, **_one_given(spec, "epsilon_per_km", default=1.0))
        case design_specs.PlanarGeometricSpec():
            return planar.PlanarGeometric(
                grid=grid, distance=quality, **_one_given(spec, "epsilon_per_km", default=1.0)
            )
        case design_specs.OptimalPrivacySpec():
            privacy = world.privacy_distance
            return optimal.OptimalPrivacy(quality_distance=quality, privacy_distance=privacy, **_parameters(spec))
        case design_specs.OptimalQualitySpec():
            said = _one_given(spec, "epsilon_per_km", default=1.0) | {"metric": _metric(spec.metric, world)}
            return optimal.OptimalQuality(quality_distance=quality, **said)
        case design_specs.IdentitySpec():
            return designs.Identity(n_cells=grid.n_cells)
        case design_specs.CloakingSpec():
            return coarse.Cloaking(grid=grid, distance=quality, **_one_given(spec, "k", default=design_specs.DEFAULT_K))
        case design_specs.SnappingSpec():
            return coarse.Snapping(grid=grid, distance=quality, **_one_given(spec, "cells_per_side", default=2))
        case design_specs.DroppingSpec():
            return coarse.Dropping(distance=quality, **_one_given(spec, "drop_probability", default=0.5))
        case design_specs.DummiesSpec():
            return dummies.Dummies(n_cells=grid.n_cells, **_parameters(spec))
        case Custom():
            return cast(Design, _custom(spec, "design", world=world))


@lru_cache(maxsize=4)
def _metric(name: str, world: World) -> Distance:
    """Return the distance that a promise is about, one for all users."""
    of_world = {"quality": world.quality_distance, "privacy": world.privacy_distance}
    return of_world[name] if name in of_world else distance.euclidean(world.grid)


def _one_given(spec: Spec, parameter: str, *, default: float) -> dict[str, Any]:
    """Return what a design is made with: its parameter has a default unless a budget is given."""
    said = _parameters(spec)
    if said[parameter] is None and said["quality_budget_km"] is None:
        said[parameter] = default
    return said


def build_attack(
    spec: protection.AnyAttack,
    world: World,
    known: Mapping[str, Statistics],
    scenario: Scenario,
    in_force: Mapping[str, Sequence[tuple[int, Statistics]]] | None = None,
    space: OutputSpace | None = None,
) -> Attack:
    """Build an adversary, given the statistics she has of each user.

    `in_force` gives those of the users whose statistics change, each with the first query from which on they are in
    force: a hardwired belief follows them. One that learns, and one's own, has the others. `space` is what the outputs
    of the mechanism stand for, the cells unless said.
    """
    space = space or Cells(world.grid.n_cells)
    match spec:
        case protection.OwnAttack():
            return cast(Attack, _custom(spec, "attack", world=world, statistics_of=StatisticsOf(known)))
        case protection.IdentificationSpec():
            return _identification(spec, world, known, scenario, in_force or {})
        case protection.FaceValueSpec():
            return FaceValueAttack(
                profile_of=lambda user: known[user].profile,
                distance=world.privacy_distance,
                space=space,
                foresee=scenario.record.expected,
            )
        case protection.AttackSpec():
            belief_of = _beliefs(spec, world, known, scenario, in_force or {})
            if spec.assumes is None:
                return _inferring(spec, belief_of, world, scenario)
            belief_of = cache(belief_of)
            attack = _inferring(spec, belief_of, world, scenario)
            with input_errors(f"attacks.{spec.name}.assumes"):
                design = build_design(spec.assumes, world)
            return AssumingAttack(
                attack=attack, belief_of=belief_of, design=design, readable=output_space(design, world) == space
            )


def output_space(design: Design, world: World) -> OutputSpace:
    """Return what the outputs of a design stand for."""
    return DesignCapabilities.space.of(design) or Cells(world.grid.n_cells)


def _beliefs(
    spec: protection.AttackSpec,
    world: World,
    known: Mapping[str, Statistics],
    scenario: Scenario,
    in_force: Mapping[str, Sequence[tuple[int, Statistics]]],
) -> Callable[[str], Belief]:
    """Return what makes an adversary's belief about a user."""
    believe, restart_s = spec.belief, scenario.restart_s
    is_hardwired = isinstance(believe, beliefs.FixedProfileSpec | beliefs.MarkovFilterSpec)
    changing = in_force if is_hardwired else {}

    def belief_of(user: str) -> Belief:
        if user not in changing:
            return build_belief(believe, known[user], restart_s, world)
        beliefs = [(first, build_belief(believe, own, restart_s, world)) for first, own in changing[user]]
        return InForce(cast(Any, beliefs))

    return belief_of


def _inferring(
    spec: protection.AttackSpec, belief_of: Callable[[str], Belief], world: World, scenario: Scenario
) -> Attack:
    """Build the attack that infers with a belief: the spec has made sure that it is one that can look back."""
    told: dict[str, Any] = {"foresee": scenario.record.expected, "tell": scenario.record.posterior}
    if spec.decides == "optimal" and spec.hindsight is None:
        return OptimalAttack(belief_of=belief_of, distance=world.privacy_distance, **told)
    back: dict[str, Any] = {"lags": [], "final": False} if spec.hindsight is None else _parameters(spec.hindsight)
    chained = cast(Any, belief_of)
    if spec.decides == "path":
        return PathAttack(belief_of=chained, **back, **told)
    return SmoothingAttack(belief_of=chained, distance=world.privacy_distance, **back, **told)


def _identification(
    spec: protection.IdentificationSpec,
    world: World,
    known: Mapping[str, Statistics],
    scenario: Scenario,
    in_force: Mapping[str, Sequence[tuple[int, Statistics]]],
) -> Attack:
    return IdentificationAttack(
        candidates={user: in_force.get(user, [(1, own)]) for user, own in known.items()},
        distance=world.privacy_distance,
        model=spec.model,
        matching=spec.matching,
        anywhere=spec.anywhere,
        restart_s=scenario.restart_s,
        foresee=scenario.record.expected,
        tell=scenario.record.posterior,
    )


class StatisticsOf:
    """What one's own attack is given: called with a user's name, it returns her statistics."""

    def __init__(self, known: Mapping[str, Statistics]) -> None:
        self._known = known

    @property
    def users(self) -> tuple[str, ...]:
        """Return the names that it knows: where names are hidden, those of the users who may be behind a pseudonym."""
        return tuple(self._known)

    def __call__(self, user: str) -> Statistics:
        """Return what is known of a user."""
        if user not in self._known:
            raise ComponentError(
                f"statistics_of({user!r}): nothing is known under this name; where names are hidden, take one of "
                "`statistics_of.users`, or say `knows: training` with a set of kind others"
            )
        return self._known[user]


def build_promise(scenario: Scenario, world: World) -> Distance | None:
    """Build the distance in which the promise of channels is recorded, if it is."""
    return None if scenario.record.epsilon == "none" else _metric(scenario.record.epsilon, world)
