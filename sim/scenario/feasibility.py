"""Refuse what would need a matrix over all pairs of cells that is too large, before anything is built.

Designs declare what they need (`DesignParameters.require_feasible`), distances whether they are matrices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from sim.attack.bayesian import BayesianParameters
from sim.belief.estimated_profile import EstimatedProfileParameters
from sim.belief.markov_em import EstimatedMarkovParameters
from sim.belief.parameters import BeliefParameters
from sim.belief.regularisation import Regularisation
from sim.errors import InvalidValue
from sim.inference.dense import require_dense
from sim.lppm.parameters import DesignParameters, WorldSize, require_calibrated
from sim.mobility.synthetic.markov import MarkovChainParameters
from sim.mobility.training.others import OthersParameters
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import Fault, ScenarioError
from sim.world.parameters import GridParameters, LocationParameters


def require_feasible(scenarios: Iterable[Scenario]) -> None:
    """Raise `ScenarioError` with every part of some scenarios, one per point of a sweep, that would be refused."""
    known: set[str] = set()
    faults: list[Fault] = []
    for scenario in scenarios:
        parts = [scenario.world, *scenario.lppms, *scenario.attacks, scenario.users.mobility]
        text = "".join(part.model_dump_json() for part in parts) + scenario.record.epsilon
        if text not in known:
            known.add(text)
            faults += _faults(scenario)
    if faults:
        raise ScenarioError(faults)


def _faults(scenario: Scenario) -> Iterator[Fault]:
    """Yield a fault for each part of a scenario that needs too much for the grid."""
    for path, require in _requirements(scenario):
        try:
            require()
        except InvalidValue as error:
            yield Fault("scenario", path, str(error), error.code)


def _requirements(scenario: Scenario) -> Iterator[tuple[str, Any]]:
    """Yield the path of each part with a function that raises `InvalidValue` if the part is refused."""
    world = scenario.world
    cells = scenario.n_cells
    size = WorldSize(n_cells=cells, quality=world.quality_distance.kind, privacy=world.privacy_distance.kind)

    def dense(what: str) -> Any:
        return lambda: require_dense(cells, what)

    for name in ("privacy_distance", "quality_distance"):
        distance = getattr(world, name)
        if distance.is_dense:
            yield f"world.{name}", dense(f"the {distance.kind} distances between all pairs of cells")
    movers = {"users": scenario.users.mobility} | {
        f"training.{name}": spec.mobility
        for name, spec in scenario.training.items()
        if isinstance(spec, OthersParameters)
    }
    for path, mobility in movers.items():
        if isinstance(mobility, MarkovChainParameters):
            yield f"{path}.mobility", dense("the transitions between all pairs of cells")
    for lppm in scenario.lppms:
        yield f"lppms.{lppm.name}.design", partial(_require_design, lppm.design, size, world.where)
        if what := _matrix_of(lppm.belief):
            yield f"lppms.{lppm.name}.belief", dense(what)
    for attack in scenario.attacks:
        if not isinstance(attack, BayesianParameters):
            continue
        if what := _matrix_of(attack.belief):
            yield f"attacks.{attack.name}.belief", dense(what)
        if attack.assumes is not None:
            yield f"attacks.{attack.name}.assumes", partial(_require_design, attack.assumes, size, world.where)
            yield f"attacks.{attack.name}.assumes", partial(require_calibrated, attack.assumes)
    if scenario.record.epsilon != "none":
        yield "record.epsilon", dense("the probabilities of all outputs in all cells")


def _require_design(design: DesignParameters, size: WorldSize, where: LocationParameters) -> None:
    """Raise `InvalidValue` if a design needs a matrix that is too large, or coordinates that the grid does not have."""
    design.require_feasible(size)
    if design.needs_coordinates and not where.on_earth:
        raise InvalidValue(
            f"the design {design.kind} works on latitudes and longitudes, which the kind {where.kind} does not have: "
            "use a grid of kind region or san_francisco, or locations in degrees",
            code="no-coordinates",
        )
    if design.needs_grid and not isinstance(where, GridParameters):
        raise InvalidValue(
            f"the design {design.kind} needs the cells of a grid, found locations of kind {where.kind}: use "
            f"`world.grid`, or {design.without_grid}",
            code="needs-grid",
        )


def _matrix_of(belief: BeliefParameters) -> str:
    """Return a description of the matrix over all pairs of cells that a belief needs; empty if it needs none."""
    if isinstance(belief, EstimatedMarkovParameters):
        return "the transitions between all pairs of cells"
    if not isinstance(belief, EstimatedProfileParameters):
        return ""
    regularise = belief.regularise
    smooths = regularise == "cross_validated" or (isinstance(regularise, Regularisation) and regularise.smooth_km > 0)
    return "the smoothing kernel between all pairs of cells" if smooths else ""
