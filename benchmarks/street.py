"""Rows about street level: growth of a query with the number of cells, and memory and time at 33,600 cells.

San Francisco is resolved into more and more cells, down to 100 m. Each query has a sporadic and a Markov attack, and
expected metrics are off. `main` is the measured process of the rows about memory.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from benchmarks import limits
from benchmarks.memory import main_of, resident
from benchmarks.people import DESIGNS, GAP, City, Run, timed_run
from benchmarks.scale import Scale
from benchmarks.targets import Measurement
from benchmarks.timing import Samples, seconds_of, side_by_side
from sim.attack.optimal import OptimalAttack
from sim.belief.estimated_profile import EstimatedProfile, EstimatedProfileParameters
from sim.belief.fixed_profile import FixedProfile
from sim.belief.gravity_filter import GravityFilter, GravityFilterParameters
from sim.belief.markov_filter import MarkovFilter
from sim.belief.recursive_profile import RecursiveProfile, RecursiveProfileParameters
from sim.interfaces import Belief, Design
from sim.lppm.mechanism import Mechanism
from sim.mobility.statistics import Statistics, statistics
from sim.mobility.traces import Trace
from sim.scenario.models import Scenario

_RUN_S = 600.0
_RUN_BYTES = 3e9


class Street:
    """One user in a resolved city, with a mechanism trained on another user, and both worst-case adversaries."""

    def __init__(self, shape: tuple[int, int], queries: int) -> None:
        self.city = City.resolved(shape)
        self.trace = self.city.trace("user", queries)
        self._test = self.city.statistics(self.trace)
        self._training = self.city.statistics(self.city.trace("another user", queries))
        self.worst_gap = 0.0
        """Largest certified gap of all estimates so far."""

    def belief(self, name: str) -> Belief:
        """Return a new belief by its short name."""
        training = self._training
        beliefs: dict[str, Callable[[], Belief]] = {
            "SP": lambda: FixedProfile(profile=training.profile),
            "MK": lambda: _filter(training),
            "RPEB": lambda: RecursiveProfile(RecursiveProfileParameters(), initial_profile=training.profile),
            "PEB-MK": self._gravity,
            "PEB": lambda: EstimatedProfile(EstimatedProfileParameters(gap=GAP), initial_profile=training.profile),
        }
        return beliefs[name]()

    def run(self, belief_name: str, design: Design) -> Run:
        """Time a mechanism with both attacks."""
        belief = self.belief(belief_name)
        sporadic, markov = FixedProfile(profile=self._test.profile), _filter(self._test)
        attack, second = (
            OptimalAttack(belief_of=lambda _user, own=own: own, distance=self.city.distance)  # type: ignore[misc]
            for own in (sporadic, markov)
        )
        mechanism = Mechanism(belief=belief, design=design)
        run = timed_run(self.city, [self.trace], lambda _user: mechanism, attack, second=second)
        if isinstance(belief, EstimatedProfile):
            self.worst_gap = max(self.worst_gap, belief.worst_gap)
        return run

    def _gravity(self) -> Belief:
        parameters = GravityFilterParameters()
        uniform = np.full(self.city.n_cells, 1 / self.city.n_cells)
        return GravityFilter(parameters, initial_profile=uniform, kernels=parameters.kernels(self.city.distance))


def _filter(known: Statistics) -> MarkovFilter:
    return MarkovFilter(start_profile=known.start_profile, transition=known.transitions)


def measure_growth(scale: Scale, *, beliefs: tuple[str, ...]) -> Measurement:
    """Fit the exponent of the number of cells with which the cost of a query grows; the largest of all cases counts."""
    streets = [Street(shape, scale.queries) for shape in scale.street_shapes]
    sizes = [street.city.n_cells for street in streets]

    def cost_s(street: Street, belief: str, name: str) -> float:
        (design,) = street.city.designs([name]).values()
        runs = [street.run(belief, design) for _ in range(scale.long_rounds)]
        return min(run.per_query_s(scale.queries, scale.window) for run in runs)

    cases = {
        f"{belief} {name}": float(np.polyfit(np.log(sizes), np.log([cost_s(s, belief, name) for s in streets]), 1)[0])
        for belief in beliefs
        for name in scale.street_designs
    }
    worst = max(cases, key=lambda case: cases[case])
    samples = {case: Samples((exponent,), (1.0,)) for case, exponent in cases.items()}
    note = f"largest: {worst}; {sizes[0]:,} to {sizes[-1]:,} cells"
    return Measurement(cases[worst], 1.0, samples, note=note, fault=_gap_fault(streets))


def measure_query(scale: Scale) -> Measurement:
    """Time a PEB query at the finest resolution, both attacks included."""
    street = Street(scale.street_shapes[-1], scale.queries)
    limit = partial(seconds_of, limits.gradient_pass(scale.queries, street.city.n_cells))
    cases = {
        name: side_by_side(
            lambda design=design: street.run("PEB", design).per_query_s(scale.queries, scale.window),  # type: ignore[misc]
            limit,
            rounds=scale.long_rounds,
        )
        for name, design in street.city.designs(scale.street_designs).items()
    }
    slowest = max(cases.values(), key=lambda samples: samples.best[0] / samples.best[1])
    note = f"{street.city.n_cells:,} cells, certified gap at most {street.worst_gap:.2g}"
    return Measurement(*slowest.best, cases, note=note, fault=_gap_fault([street]))


def _gap_fault(streets: list[Street]) -> str:
    worst_gap = max(street.worst_gap for street in streets)
    return "" if worst_gap <= GAP else f"certified gap too large: {worst_gap:.2g}, allowed is {GAP}"


def measure_peb_memory(scale: Scale) -> Measurement:
    """Measure the memory that a PEB user adds to a process, the mean over some users."""
    shape, users = scale.street_shapes[-1], scale.street_users
    taken = main_of(__name__, json.dumps(["users", {"shape": shape, "queries": scale.queries, "users": users}]))
    limit = scale.queries * shape[0] * shape[1] * 8
    return Measurement(taken / users, limit, note=f"mean of {users} users, r = {scale.queries}")


def measure_markov_memory(scale: Scale) -> Measurement:
    """Measure the memory of training statistics and a Markov filter, beside a sparse matrix of the transitions."""
    shape, steps = scale.street_shapes[-1], scale.street_steps
    taken, limit = main_of(__name__, json.dumps(["markov", {"shape": shape, "steps": steps}]))
    return Measurement(taken, limit, note=f"{steps:,} training steps, {shape[0] * shape[1]:,} cells")


def measure_run_time(scale: Scale) -> Measurement:
    """Time a whole run at the finest resolution on two workers, from start to end."""
    took_s, _ = _whole_run(scale)
    return Measurement(took_s, _RUN_S, note=_run_note(scale))


def measure_run_memory(scale: Scale) -> Measurement:
    """Measure the peak memory of driver and workers together in the same run."""
    _, taken = _whole_run(scale)
    return Measurement(taken, _RUN_BYTES, note=_run_note(scale))


_finished_runs: dict[Scale, tuple[float, float]] = {}


def _whole_run(scale: Scale) -> tuple[float, float]:
    """Run the scenarios once per scale; return the total time in s and the largest memory in bytes."""
    if scale not in _finished_runs:
        results = [main_of(__name__, json.dumps(["run", [_scenario(scale, d), 2]])) for d in scale.street_distances]
        _finished_runs[scale] = (sum(took_s for took_s, _ in results), max(taken for _, taken in results))
    return _finished_runs[scale]


def _run_note(scale: Scale) -> str:
    cells = scale.street_shapes[-1][0] * scale.street_shapes[-1][1]
    work = f"{scale.street_run_users} users x {scale.street_run_queries} queries"
    distances = " and ".join(scale.street_distances)
    return f"{cells:,} cells, {work}, SP, MK, PEB and PEB-MK with Exp, {distances}, two workers"


def _scenario(scale: Scale, distance: str) -> dict[str, Any]:
    rows, cols = scale.street_shapes[-1]
    grid = {"kind": "san_francisco", "rows": rows, "cols": cols}
    return {
        "name": f"street-{distance}",
        "replications": 1,
        "world": {"grid": grid, "privacy_distance": distance, "quality_distance": distance},
        "users": {"count": scale.street_run_users, "queries": scale.street_run_queries, "mobility": "favourites"},
        "training": {"others": {"kind": "others", "count": 50, "queries": 100}},
        "lppms": ["SP-Exp", "MK-Exp", "PEB-Exp", "PEB-MK-Exp"],
        "attacks": ["sporadic", "markov"],
        "record": {"expected": False},
    }


def _run_scenario(parts: dict[str, Any], workers: int) -> tuple[float, float]:
    """Run a scenario in this process and its workers; return time in s and the sum of their peak memories in bytes."""
    from multiprocessing import active_children

    from sim.execution.local_pool import Workers
    from sim.execution.run import run

    pool = Workers(workers)
    with tempfile.TemporaryDirectory() as folder:
        began = perf_counter()
        run(Scenario.model_validate(parts), out=Path(folder) / "run", pool=pool)
        took_s = perf_counter() - began
        peaks = [_peak(child.pid) for child in active_children()]
    pool.close()
    return took_s, resident()[1] + sum(peaks)


def _peak(pid: int | None) -> int:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
    return int(fields["VmHWM"].split()[0]) * 1024


def _simulate_users(shape: list[int], queries: int, users: int) -> int:
    """Return the growth of memory in bytes while PEB users with one mechanism each are simulated."""
    city = City.resolved((shape[0], shape[1]))
    training = city.statistics(city.trace("another user", queries)).profile
    design = DESIGNS["Exp 1/km"](distance=city.distance)
    mechanisms: dict[str, Mechanism] = {}

    def simulate(names: list[str]) -> None:
        traces = [city.trace(name, queries) for name in names]
        for name in names:
            belief = EstimatedProfile(EstimatedProfileParameters(gap=GAP), initial_profile=training)
            mechanisms[name] = Mechanism(belief=belief, design=design)
        profile = FixedProfile(profile=training)
        attack = OptimalAttack(belief_of=lambda _user: profile, distance=city.distance)
        timed_run(city, traces, mechanisms.__getitem__, attack, stamped=False)

    simulate(["warm-up"])
    before, _ = resident()
    simulate([f"user-{number}" for number in range(users)])
    return resident()[1] - before


def _build_markov(shape: list[int], steps: int) -> tuple[int, int]:
    """Return the bytes of the objects of a Markov model, and those of a sparse matrix of its transitions."""
    n_cells = shape[0] * shape[1]
    cells = np.random.default_rng(0).integers(n_cells, size=steps + 1)  # almost all transitions differ
    counted = statistics([Trace("user", np.arange(steps + 1), cells)], n_cells=n_cells)
    belief = _filter(counted)
    belief.prior(0)
    pairs, counts = np.unique(cells[:-1] * n_cells + cells[1:], return_counts=True)
    start, end = (half.astype(np.int32) for half in np.divmod(pairs, n_cells))
    matrix = csr_array((counts.astype(np.float64), (start, end)), shape=(n_cells, n_cells))
    limit = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    return _array_bytes([counted, belief]), limit


def _array_bytes(roots: list[object]) -> int:
    """Return the bytes of all different arrays reachable from objects."""
    seen: set[int] = set()
    total = 0
    queue = list(roots)
    while queue:
        item = queue.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            total += item.nbytes if item.base is None else 0
            queue += [] if item.base is None else [item.base]
        elif isinstance(item, list | tuple):
            queue += item
        elif isinstance(item, dict):
            queue += item.values()
        elif hasattr(item, "__dict__"):
            queue += vars(item).values()
    return total


def main() -> None:
    """Do the work named in the first argument and print its result as JSON."""
    kind, work = json.loads(sys.argv[1])
    if kind == "users":
        print(json.dumps(_simulate_users(**work)))
    elif kind == "markov":
        print(json.dumps(_build_markov(**work)))
    else:
        print(json.dumps(_run_scenario(*work)))
