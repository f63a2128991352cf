"""Synthetic city with users, and timed simulations, which all rows of the benchmark share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time_ns

import numpy as np

from benchmarks.timing import NS
from sim.attack.optimal import OptimalAttack
from sim.belief.estimated_profile import EstimatedProfile, EstimatedProfileParameters
from sim.belief.fixed_profile import FixedProfile
from sim.belief.gravity_filter import GravityFilter, GravityFilterParameters
from sim.belief.markov_filter import MarkovFilter
from sim.interfaces import LPPM, Attack, Belief, Design, FloatArray
from sim.lppm.designs.exponential import Exponential, ExponentialParameters
from sim.lppm.designs.location_hiding import LocationHiding, LocationHidingParameters
from sim.lppm.mechanism import Mechanism
from sim.mobility.statistics import Statistics, statistics
from sim.mobility.synthetic.favourites import Favourites, FavouritesParameters
from sim.mobility.traces import Trace
from sim.rng import stream
from sim.simulation.engine import simulate
from sim.simulation.recorder import SimulationLog
from sim.world import Grid, World
from sim.world.distances.manhattan import manhattan

SEED = 3
CELL_KM = (1.2, 1.1)
"""Width and height of a cell in km, as on the grid of San Francisco."""
EVERY_S = 300
GAP = 1e-6

DESIGNS: dict[str, Callable[..., Design]] = {
    "Exp 0.3/km": lambda distance, **more: Exponential(
        ExponentialParameters(epsilon_per_km=0.3, **more), distance=distance
    ),
    "Exp 1/km": lambda distance, **more: Exponential(
        ExponentialParameters(epsilon_per_km=1.0, **more), distance=distance
    ),
    "Exp 2/km": lambda distance, **more: Exponential(
        ExponentialParameters(epsilon_per_km=2.0, **more), distance=distance
    ),
    "LH 0.6": lambda distance, **more: LocationHiding(
        LocationHidingParameters(reveal_probability=0.6, **more), distance=distance
    ),
}


class City:
    """Manhattan grid with users who query from their favourite places every five minutes.

    A larger `shape` is a larger city with cells of the same size; `City.resolved` has smaller cells instead.
    """

    def __init__(self, shape: tuple[int, int], grid: Grid | None = None) -> None:
        rows, cols = shape
        if grid is None:
            grid = Grid.rectangle(rows=rows, cols=cols, width_km=CELL_KM[0] * cols, height_km=CELL_KM[1] * rows)
        self.distance = manhattan(grid)
        self.world = World(locations=grid, roads=None, privacy_distance=self.distance, quality_distance=self.distance)
        self._people = Favourites(FavouritesParameters(), locations=grid, seed=SEED)

    @classmethod
    def resolved(cls, shape: tuple[int, int]) -> City:
        """Return San Francisco in this number of rows and columns."""
        return cls(shape, Grid.san_francisco(rows=shape[0], cols=shape[1]))

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return self.world.n_cells

    def designs(self, names: Sequence[str]) -> dict[str, Design]:
        """Return the designs with these names."""
        return {name: DESIGNS[name](distance=self.distance) for name in names}

    def base_matrix(self, name: str) -> FloatArray:
        """Return the channel of a design without its remap, as a matrix [cell, output]."""
        bare = DESIGNS[name](distance=self.distance, remap=False)
        return np.array(bare(np.full(self.n_cells, 1 / self.n_cells)).matrix())

    def trace(self, user: str, queries: int) -> Trace:
        """Return the trace of a user, the same in every call."""
        cells = stream(SEED, "moves", user).choice(self.n_cells, size=queries, p=self._people.profile(user))
        return Trace(user, np.arange(queries) * EVERY_S, cells)

    def statistics(self, trace: Trace) -> Statistics:
        """Return the profile and the transitions of a trace."""
        return statistics([trace], n_cells=self.n_cells)


@dataclass(frozen=True, slots=True)
class Run:
    """The CPU time of one simulation."""

    stamps_s: tuple[float, ...]
    """CPU time at which each query was recorded; with one user, the time between two of them is one query."""
    simulated_s: float
    tabled_s: float

    @property
    def total_s(self) -> float:
        """The total CPU time, including the rows of the event log."""
        return self.simulated_s + self.tabled_s

    def per_query_s(self, until: int, window: int) -> float:
        """Return the mean time of the last `window` of the first `until` queries, with their share of the event log."""
        between_s = self.stamps_s[until - 1] - self.stamps_s[until - 1 - window]
        return between_s / window + self.tabled_s / len(self.stamps_s)


def timed_run(
    city: City,
    traces: Sequence[Trace],
    lppm_of: Callable[[str], LPPM],
    attack: Attack,
    *,
    expected: bool = False,
    stamped: bool = True,
    second: Attack | None = None,
) -> Run:
    """Run and time a simulation with the engine, one or two adversaries and the log.

    Reading the clock takes almost a microsecond: if only the total matters, queries need not be `stamped`.
    """
    stamps: list[int] = []
    attacks = {"attack": attack} if second is None else {"attack": attack, "second": second}
    log = SimulationLog(
        world=city.world,
        traces=traces,
        attacks=list(attacks),
        expected=expected,
        tick=(lambda _queries: stamps.append(process_time_ns())) if stamped else None,
    )
    began = process_time_ns()
    simulate(
        traces=traces,
        lppm_of=lppm_of,
        noise_of=lambda user: stream(SEED, "noise", user),
        attacks=attacks,
        log=log,
    )
    simulated = process_time_ns()
    log.table(point=0, lppm="bench", replication=0)
    tabled = process_time_ns()
    return Run(tuple(stamp * NS for stamp in stamps), (simulated - began) * NS, (tabled - simulated) * NS)


class Contest:
    """One user with a mechanism, and the worst-case adversary: sporadic (PEB) or Markov (MK)."""

    def __init__(self, city: City, queries: int) -> None:
        self._city = city
        self.trace = city.trace("user", queries)
        self._test = city.statistics(self.trace)
        self._training = city.statistics(city.trace("another user", queries))
        self.worst_gap = 0.0
        """Largest certified gap of all estimates in all PEB runs so far."""

    def peb(self, design: Design, *, expected: bool = False, attack: Attack | None = None) -> Run:
        """Time a PEB mechanism with the optimal sporadic attack, or with another attack."""
        belief = EstimatedProfile(EstimatedProfileParameters(gap=GAP), initial_profile=self._training.profile)
        optimal = self._optimal(lambda: FixedProfile(profile=self._test.profile), expected)
        run = self._run(belief, design, attack or optimal, expected)
        self.worst_gap = max(self.worst_gap, belief.worst_gap)
        return run

    def markov(self, design: Design, *, expected: bool = False) -> Run:
        """Time an MK mechanism with the optimal Markov attack."""
        optimal = self._optimal(lambda: _filter(self._test), expected)
        return self._run(_filter(self._training), design, optimal, expected)

    def gravity(self, design: Design) -> Run:
        """Time a PEB-MK mechanism, which has no training, with the optimal Markov attack."""
        uniform = np.full(self._city.n_cells, 1 / self._city.n_cells)
        parameters = GravityFilterParameters()
        kernels = parameters.kernels(self._city.distance)
        belief = GravityFilter(parameters, initial_profile=uniform, kernels=kernels)
        return self._run(belief, design, self._optimal(lambda: _filter(self._test), expected=False), expected=False)

    def _optimal(self, belief: Callable[[], Belief], expected: bool) -> Attack:
        return OptimalAttack(belief_of=lambda _user: belief(), distance=self._city.distance, all_outputs=expected)

    def _run(self, belief: Belief, design: Design, attack: Attack, expected: bool) -> Run:
        mechanism = Mechanism(belief=belief, design=design)
        return timed_run(self._city, [self.trace], lambda _user: mechanism, attack, expected=expected)


def _filter(known: Statistics) -> MarkovFilter:
    return MarkovFilter(start_profile=known.start_profile, transition=known.transitions)


def warm_up() -> None:
    """Run each kind of simulation once, so that imports, compilation and caches at first use do not count."""
    city = City((3, 4))
    contest = Contest(city, 8)
    for design in city.designs(tuple(DESIGNS)).values():
        for expected in (False, True):
            contest.peb(design, expected=expected)
            contest.markov(design, expected=expected)
        contest.gravity(design)
