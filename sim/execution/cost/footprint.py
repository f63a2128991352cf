"""Estimate the peak memory of a simulation from the sizes of the objects that it holds at the same time."""

from __future__ import annotations

from itertools import repeat
from typing import Any

from sim.attack.bayesian import BayesianParameters
from sim.attack.identification import IdentificationParameters
from sim.attack.parameters import AttackParameters
from sim.belief.estimated_profile import EstimatedProfileParameters
from sim.belief.fixed_profile import FixedProfileParameters
from sim.belief.forgetting import Forgetting
from sim.belief.gravity_filter import GravityFilterParameters
from sim.belief.markov_em import EstimatedMarkovParameters
from sim.belief.markov_filter import MarkovFilterParameters
from sim.belief.parameters import BeliefParameters
from sim.lppm.designs.coin import CoinParameters
from sim.lppm.designs.dropping import DroppingParameters
from sim.lppm.designs.dummies import DummiesParameters
from sim.lppm.designs.exponential import ExponentialParameters
from sim.lppm.designs.identity import IdentityParameters
from sim.lppm.designs.location_hiding import LocationHidingParameters
from sim.lppm.designs.optimal_privacy import OptimalPrivacyParameters
from sim.lppm.designs.optimal_quality import OptimalQualityParameters
from sim.lppm.designs.planar_geometric import PlanarGeometricParameters
from sim.lppm.parameters import DesignParameters
from sim.lppm.theory import MOST_CELLS
from sim.mobility.synthetic.markov import MarkovChainParameters
from sim.mobility.training.other_users import OtherUsersParameters
from sim.mobility.training.others import OthersParameters
from sim.scenario.lppms import LPPMSpec
from sim.scenario.models import Scenario
from sim.world.distance import MATRIX_CELLS

NUMBER = 8
"""Bytes of a number."""
ROW_BYTES = 260
"""Bytes of a row of the event log before it is written: its columns, and the arrays from which they are made."""
USER_BYTES = 6_000
"""Bytes of the objects of each user, whatever the length of the trace."""
QUERY_BYTES = 90
"""Bytes of a query of the test, in the trace, the statistics and the log of its outputs."""
FILE_ROW_BYTES = 150
"""Bytes of a row of a trace file while it is read."""
FIGURES_BYTES = 90_000_000
"""Bytes of the plotting libraries and of their figures."""
TRANSITION_BYTES = 28
"""Bytes of a counted transition: its code and number, and its entry in the sparse matrix."""
CHANNEL_VECTORS = 40
"""Number of vectors over the cells that the design of a structured channel holds temporarily, FFTs included."""
COMPACT_VECTORS = 12
"""Number of vectors over the cells of a learning belief that stores likelihoods in compact form."""
COMPACT_ROW_BYTES = 1_600
"""Bytes of a likelihood in compact form, for some hundred runs of cells."""
_STRUCTURED_DISTANCES = ("manhattan", "euclidean", "road")
_STRUCTURED = ("manhattan", "euclidean")


def peak_bytes(scenario: Scenario, *, users: int, queries: float, past: float, rows: int, file_rows: int = 0) -> float:
    """Return the memory in bytes, in addition to that of the code, of a process that runs a chunk of a scenario.

    `queries` and `past` are the mean numbers of queries of a user in the test and the past; `rows` is the number of
    rows in the event log of one chunk.
    """
    cells = scenario.n_cells
    matrix = cells**2 * NUMBER
    lppms = max(_lppm(lppm, scenario, users=users, queries=queries) for lppm in scenario.lppms)
    attacks = sum(_belief(_belief_of(attack), queries, cells) for attack in scenario.attacks)
    attacks += sum(_hindsight(attack, queries) * cells * NUMBER for attack in scenario.attacks)
    snapshots = sum(at <= queries for at in scenario.record.snapshots) * cells * NUMBER
    each = USER_BYTES + QUERY_BYTES * queries + 2 * NUMBER * past + 2 * cells * NUMBER + attacks + snapshots
    return (
        _world(scenario) * matrix
        + users * (each + _transitions(scenario, queries=queries, others=users * past))
        + lppms
        + rows * ROW_BYTES
        + file_rows * FILE_ROW_BYTES
        + FIGURES_BYTES
    )


def _world(scenario: Scenario) -> float:
    """Return the number of matrices over all pairs of cells, independent of the users."""
    world = scenario.world
    count = float(sum(map(_is_dense, {world.privacy_distance.kind, world.quality_distance.kind}, repeat(scenario))))
    others = [spec.mobility for spec in scenario.training.values() if isinstance(spec, OthersParameters)]
    movers = [scenario.users.mobility, *others]
    count += 3 * any(isinstance(mobility, MarkovChainParameters) for mobility in movers)
    count += any(_has_metric(lppm.design) for lppm in scenario.lppms)
    count += scenario.record.epsilon not in ("none", "quality", "privacy")
    gravity = any(isinstance(lppm.belief, GravityFilterParameters) for lppm in scenario.lppms)
    count += 8 * (gravity and _is_dense("road" if world.roads else world.quality_distance.kind, scenario))
    return count + (1 if count else 0)  # a temporary one


def _is_dense(kind: str, scenario: Scenario) -> bool:
    """Return whether a distance of this kind is held as a matrix."""
    return kind not in _STRUCTURED_DISTANCES or scenario.n_cells <= MATRIX_CELLS


def _transitions(scenario: Scenario, *, queries: float, others: float) -> float:
    """Return the bytes of the transitions of each user, in Markov adversaries and mechanisms.

    `others` is the number of queries in the pasts of all users, which are counted for each user without their own.
    """
    matrix = scenario.n_cells**2 * NUMBER
    own, pooled = (min(count * TRANSITION_BYTES, matrix) for count in (queries, others))
    stretches = 1 + 3 * len(scenario.shifts)
    known = set[str]()
    for attack in scenario.attacks:
        if _follows(attack):
            known |= _counted(scenario, attack.training) if attack.knows == "training" else {f"test of {attack.knows}"}
    for lppm in scenario.lppms:
        if isinstance(lppm.belief, MarkovFilterParameters | EstimatedMarkovParameters):
            known |= _counted(scenario, lppm.training)
    of_test = sum(stretches if name == "test of test" else 1 for name in known if name.startswith("test of "))
    sets = [scenario.training[name] for name in known if name in scenario.training]
    n_pooled = sum(isinstance(spec, OtherUsersParameters) for spec in sets)
    return (of_test + sum(spec.by_user for spec in sets) - n_pooled) * own + n_pooled * pooled


def _counted(scenario: Scenario, training: str | None) -> set[str]:
    """Return the names of the training sets in which the transitions of a training set are counted."""
    name = scenario.training_set(training)
    return set() if name is None else set(scenario.training[name].parts or (name,))


def _follows(attack: Any) -> bool:
    if isinstance(attack, IdentificationParameters):
        return attack.model == "markov"
    return isinstance(attack, BayesianParameters) and isinstance(
        attack.belief, MarkovFilterParameters | EstimatedMarkovParameters
    )


def _lppm(lppm: LPPMSpec, scenario: Scenario, *, users: int, queries: float) -> float:
    """Return the bytes of all users' mechanisms, and of the temporary memory to design a channel."""
    cells = scenario.n_cells
    matrix = cells**2 * NUMBER
    lists_outputs = scenario.records_expected or (cells <= MOST_CELLS and bool(scenario.record.snapshots))
    shared = isinstance(lppm.belief, FixedProfileParameters)
    of_user = _belief(lppm.belief, queries, cells) + 2 * cells * NUMBER
    channel, solving = 0.0, 0.0
    match lppm.design:
        case OptimalPrivacyParameters():
            channel, solving = matrix, cells * matrix * 8
        case OptimalQualityParameters():
            channel, solving = matrix, matrix * 60
        case (
            IdentityParameters()
            | LocationHidingParameters()
            | CoinParameters()
            | DummiesParameters()
            | DroppingParameters()
        ):
            pass
        case ExponentialParameters() if not lists_outputs and scenario.world.quality_distance.kind in _STRUCTURED:
            solving = CHANNEL_VECTORS * cells * NUMBER
        case _:
            solving = 3 * matrix
    return users * of_user + (1 if shared else users) * channel + solving


def _belief(belief: Any, queries: float, cells: int) -> float:
    """Return the bytes of a belief about one user after a number of reports, mainly their likelihoods by cell."""
    row = cells * NUMBER
    match belief:
        case EstimatedProfileParameters():
            window = belief.forget.window if isinstance(belief.forget, Forgetting) else None
            rows = queries if window is None else min(queries, 2 * window)
            if belief.stores_compact_rows(cells):
                return float(rows * COMPACT_ROW_BYTES + COMPACT_VECTORS * row)
            return float(rows * row * (4 if belief.regularise == "cross_validated" else 1) * 1.5)
        case EstimatedMarkovParameters():
            return float(min(queries, belief.window) * row * 2 + 2 * cells * row)
        case GravityFilterParameters():
            return float(8 * row)
        case _:
            return float(2 * row)


def _belief_of(attack: AttackParameters) -> BeliefParameters | None:
    return attack.belief if isinstance(attack, BayesianParameters) else None


def _has_metric(design: DesignParameters) -> bool:
    """Return whether a design has a distance other than those of the world."""
    if not isinstance(design, OptimalQualityParameters | PlanarGeometricParameters):
        return False
    return design.metric not in ("quality", "privacy")


def _hindsight(attack: AttackParameters, queries: float) -> float:
    """Return the number of reports of each user that an adversary with hindsight stores."""
    hindsight = attack.hindsight if isinstance(attack, BayesianParameters) else None
    if hindsight is None:
        return 0.0
    return queries if hindsight.final else min(queries, max(hindsight.lags, default=0))
