"""The rows of the benchmark: what is measured, beside which limit, and what is to be reached. One function each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any, Literal

import numpy as np

from sim.attack.optimal import OptimalAttack
from sim.belief.fixed_profile import FixedProfile
from sim.bench import limits, sweeps
from sim.bench.memory import bytes_of_users
from sim.bench.people import EVERY_S, GAP, City, Contest, Run, Scale, timed_run
from sim.bench.timing import Samples, median_case, seconds_of, side_by_side, slowest_case
from sim.errors import UserError
from sim.events import Guess, Report
from sim.execution.local_pool import usable_cores
from sim.interfaces import Channel, Design, FloatArray, IntArray
from sim.lppm.mechanism import Mechanism
from sim.lppm.optimal_privacy import OptimalPrivacy
from sim.lppm.optimal_quality import OptimalQuality
from sim.world.distances.euclidean import euclidean

Direction = Literal["at_most", "at_least"]
Unit = Literal["s", "bytes", "exponent"]

SAME_KM = 1e-12
"""Two remaps are equally good if their expected losses differ by no more."""

LONGEST_PROGRAM_S = 20.0
"""So long may an optimal mechanism for a hundred cells take."""


class Skipped(Exception):
    """A row that cannot be measured here, and why."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was found: a figure, the limit beside it, and how both vary."""

    measured: float
    limit: float
    samples: Mapping[str, Samples] = field(default_factory=dict)
    note: str = ""
    fault: str = ""
    """Why the figure does not count: the answer was not as exact as the row asks for."""


@dataclass(frozen=True, slots=True)
class Row:
    """A target: the ratio of what is measured to its limit, or, `at_least`, how many times less it is."""

    name: str
    what: str
    beside: str
    direction: Direction
    target: float
    unit: Unit
    measure: Callable[[Scale], Measurement]

    def ratio(self, found: Measurement) -> float:
        """Return what the target is about."""
        return found.measured / found.limit if self.direction == "at_most" else found.limit / found.measured

    def ratios(self, found: Measurement) -> list[float]:
        """Return the ratio of every round of every case: how sure the one that counts is."""
        pairs = [pair for rounds in found.samples.values() for pair in zip(rounds.measured, rounds.limit, strict=True)]
        return [self.ratio(Measurement(*pair)) for pair in pairs] or [self.ratio(found)]

    def met(self, found: Measurement) -> bool:
        """Return whether the target is met by an answer that is exact enough."""
        ratio = self.ratio(found)
        return not found.fault and (ratio <= self.target if self.direction == "at_most" else ratio >= self.target)


def measure_peb(scale: Scale, *, expected: bool = False) -> Measurement:
    """Time one PEB query at the end of a run: estimate, remap, sample, attack, record."""
    return _peb(scale, scale.shape, scale.designs, scale.rounds, expected=expected)


def measure_peb_large(scale: Scale) -> Measurement:
    """Time one PEB query among many cells."""
    return _peb(scale, scale.large_shape, scale.long_designs, scale.long_rounds, expected=False)


def _peb(scale: Scale, shape: tuple[int, int], designs: Sequence[str], rounds: int, *, expected: bool) -> Measurement:
    city = City(shape)
    contest = Contest(city, scale.queries)
    limit = partial(seconds_of, limits.gradient_pass(scale.queries, city.n_cells))

    def at_the_end(design: Design) -> float:
        return contest.peb(design, expected=expected).per_query_s(scale.queries, scale.window)

    cases = _cases(city, designs, at_the_end, limit, rounds)
    return Measurement(*median_case(cases), cases, **_certified(contest.worst_gap))


def measure_markov(scale: Scale, *, expected: bool = False) -> Measurement:
    """Time one MK query: predict, remap, sample, attack, record."""
    city = City(scale.shape)
    contest = Contest(city, scale.queries)
    limit = partial(seconds_of, limits.prediction(city.n_cells))
    later = scale.queries - scale.window

    markov = partial(contest.markov, expected=expected)
    cases = _cases(
        city, scale.designs, lambda design: _once_running(markov, design, scale.queries, later), limit, scale.rounds
    )
    return Measurement(*median_case(cases), cases, note=f"mean of the last {later} of {scale.queries} queries")


def measure_gravity(scale: Scale) -> Measurement:
    """Time one PEB-MK query beside one of MK, each with its share of the rest."""
    city = City(scale.shape)
    contest = Contest(city, scale.queries)
    later = scale.queries - scale.window
    cases = {
        name: side_by_side(
            partial(_once_running, contest.gravity, design, scale.queries, later),
            partial(_once_running, contest.markov, design, scale.queries, later),
            rounds=scale.rounds,
        )
        for name, design in city.designs(scale.designs).items()
    }
    return Measurement(*median_case(cases), cases, note=f"mean of the last {later} of {scale.queries} queries")


def _once_running(run: Callable[[Design], Run], design: Design, queries: int, later: int) -> float:
    return run(design).per_query_s(queries, later)


def measure_sporadic(scale: Scale) -> Measurement:
    """Time one SP query among many agents: sample, attack, record."""
    city = City(scale.shape)
    traces = [city.trace(f"agent-{number}", scale.agent_queries) for number in range(scale.agents)]
    hers = {trace.user: FixedProfile(profile=city.statistics(trace).profile) for trace in traces}
    training = city.statistics(city.trace("another user", scale.queries)).profile
    queries = scale.agents * scale.agent_queries

    def per_query(design: Design) -> float:
        # One mechanism for all, as the simulator shares a belief that never changes among those who know the same.
        mechanism = Mechanism(belief=FixedProfile(profile=training), design=design)
        attack = OptimalAttack(belief_of=hers.__getitem__, distance=city.distance)
        return timed_run(city, traces, lambda _user: mechanism, attack, stamped=False).total_s / queries

    def per_timeout() -> float:
        return seconds_of(lambda: limits.bare_timeouts(scale.agents, scale.agent_queries, EVERY_S)) / queries

    cases = _cases(city, scale.long_designs, per_query, per_timeout, scale.long_rounds)
    return Measurement(*median_case(cases), cases, note=f"{scale.agents:,} agents x {scale.agent_queries}")


def measure_remap(scale: Scale) -> Measurement:
    """Time the remap of all outputs, and compare its cost with the textbook's."""
    city = City(scale.shape)
    prior = _everywhere(city, scale)
    worst_km = 0.0
    cases = {}
    for name, design in city.designs(scale.designs).items():
        channel = city.base_matrix(name)
        weights, distance_km = np.ascontiguousarray((prior[:, None] * channel).T), city.distance.matrix_km
        product = partial(np.matmul, weights, distance_km)
        cases[name] = side_by_side(
            partial(seconds_of, partial(design, prior)), partial(seconds_of, product), rounds=scale.rounds
        )
        best = limits.textbook_remap(channel, prior, distance_km)
        worst_km = max(worst_km, abs(_loss_km(design(prior), prior, city) - _loss_of(best, channel, prior, city)))
    said = f"the worst design; expected losses differ by {worst_km:.1g} km at most"
    fault = "" if worst_km <= SAME_KM else f"the remap is not optimal: {worst_km:.1g} km off, allowed is {SAME_KM} km"
    return Measurement(*slowest_case(cases), cases, note=said, fault=fault)


def measure_qif(scale: Scale) -> Measurement:
    """Time the remap of all outputs beside that of the qif package."""
    try:
        strategy = import_module("qif").measure.l_risk.strategy
    except ImportError:
        raise Skipped("qif is not installed (pip install qif)") from None
    city = City(scale.shape)
    prior = _everywhere(city, scale)
    guess_to_secret_km = np.array(city.distance.matrix_km.T)
    cases = {}
    for name, design in city.designs(scale.designs).items():
        theirs = partial(strategy, guess_to_secret_km, prior.copy(), city.base_matrix(name))
        cases[name] = side_by_side(
            partial(seconds_of, partial(design, prior)), partial(seconds_of, theirs), rounds=scale.long_rounds
        )
    return Measurement(*slowest_case(cases), cases, note="the worst design")


def measure_peb_run(scale: Scale) -> Measurement:
    """Time a whole PEB run, and what textbook EM would take for the same reports."""
    city = City(scale.shape)
    contest = Contest(city, scale.queries)
    # In the middle of equal stretches of the run; before the second query there is nothing to estimate from.
    sampled = 2 + (np.arange(0.5, scale.em_samples) / scale.em_samples * (scale.queries - 1)).astype(int)

    def run_s(design: Design) -> float:
        return contest.peb(design).total_s

    def textbook_s(seen: FloatArray, channel: FloatArray) -> float:
        once = [
            seconds_of(partial(limits.textbook_query, seen[: index - 1], channel, city.distance.matrix_km, GAP))
            for index in sampled
        ]
        return float(np.mean(once)) * scale.queries

    cases = {}
    for name, design in city.designs(scale.long_designs).items():
        seen, channel = _likelihoods(contest, design), city.base_matrix(name)
        cases[name] = side_by_side(partial(run_s, design), partial(textbook_s, seen, channel), rounds=1)
    certified = _certified(contest.worst_gap)
    certified["note"] += f"; EM at {len(sampled)} of the {scale.queries} queries, scaled to all"
    return Measurement(*median_case(cases), cases, **certified)


def measure_memory(scale: Scale) -> Measurement:
    """Measure the memory of many PEB users in a process of its own, above what its imports take."""
    users, queries, (rows, cols) = scale.memory_users, scale.queries, scale.shape
    taken = bytes_of_users(users, queries, scale.shape, GAP)
    return Measurement(taken, users * queries * rows * cols * 8, note=f"{users:,} users x {queries} queries")


def measure_growth(scale: Scale) -> Measurement:
    """Fit the power of r with which the cost of a PEB query grows."""
    city = City(scale.shape)
    contest = Contest(city, scale.lengths[-1])

    def exponent(run: Run) -> float:
        costs = [run.per_query_s(length, scale.window) for length in scale.lengths]
        return float(np.polyfit(np.log(scale.lengths), np.log(costs), 1)[0])

    cases = {
        name: Samples((exponent(contest.peb(design)),), (1.0,))
        for name, design in city.designs(scale.long_designs).items()
    }
    certified = _certified(contest.worst_gap)
    certified["note"] += f"; at r = {', '.join(f'{length:,}' for length in scale.lengths)}"
    return Measurement(median(sample.measured[0] for sample in cases.values()), 1.0, cases, **certified)


def measure_optimal(scale: Scale) -> Measurement:
    """Time the programs of optimal mechanisms, nothing kept from before."""
    if scale.optimal_shape is None:
        raise Skipped("it takes half a minute: measured without --quick")
    city = City(scale.optimal_shape)
    prior = _everywhere(city, scale)
    manhattan, crow = city.distance, euclidean(city.world.grid)
    designs = {
        "error by d_P Manhattan": OptimalPrivacy(quality_distance=crow, privacy_distance=manhattan),
        "error by d_P Euclidean": OptimalPrivacy(quality_distance=manhattan, privacy_distance=crow),
        "loss under geo-indistinguishability": OptimalQuality(
            quality_distance=manhattan, metric=crow, epsilon_per_km=1.0
        ),
    }
    cases = {
        name: side_by_side(partial(seconds_of, partial(design.matrix, prior)), lambda: LONGEST_PROGRAM_S, rounds=1)
        for name, design in designs.items()
    }
    said = f"{city.n_cells} cells, HiGHS by interior point; the slowest of three programs"
    return Measurement(*slowest_case(cases), cases, note=said)


def _cases(
    city: City, designs: Sequence[str], thing: Callable[[Design], float], limit: Callable[[], float], rounds: int
) -> dict[str, Samples]:
    """Measure a thing with each design beside its limit."""
    return {
        name: side_by_side(partial(thing, design), limit, rounds=rounds)
        for name, design in city.designs(designs).items()
    }


def measure_chunk(scale: Scale, *, pool: str) -> Measurement:
    """Measure how long a chunk takes that has nothing to do."""
    try:
        return Measurement(sweeps.seconds_per_chunk(pool, scale.chunks), 1.0, note="wall-clock time, one query a chunk")
    except UserError as error:
        raise Skipped(str(error)) from error


def measure_simulation(scale: Scale) -> Measurement:
    """Measure how long a simulation takes that has nothing to do."""
    samples = {"SP-Exp": sweeps.simulation_samples(scale.rounds)}
    return Measurement(*slowest_case(samples), samples)


def measure_workers(scale: Scale) -> Measurement:
    """Measure a sweep on two workers beside the same on one, from start to end."""
    if usable_cores() < 2:
        raise Skipped("there is one core only")
    samples = {"sweep": sweeps.sweep_samples(scale.sweep_replications, scale.sweep_users, scale.long_rounds)}
    return Measurement(*slowest_case(samples), samples, note="wall-clock time of `lppm-sim run`, start-up included")


def measure_driver(scale: Scale) -> Measurement:
    """Measure the memory of a driver of very many simulations, imports included, beside that of few."""
    found = sweeps.driver_bytes(scale.simulations)
    return Measurement(found, sweeps.driver_bytes(100), note=f"{scale.simulations:,} simulations, imports included")


def _certified(worst_gap: float) -> dict[str, Any]:
    fault = "" if worst_gap <= GAP else f"the gap is not reached: {worst_gap:.2g}, allowed is {GAP}"
    return {"note": f"certified gap {worst_gap:.2g} at most", "fault": fault}


def _everywhere(city: City, scale: Scale) -> FloatArray:
    """Return a prior as a learner has it: a profile, and a little mass wherever she has not been."""
    profile = city.statistics(city.trace("user", scale.queries)).profile
    return np.asarray(0.95 * profile + 0.05 / city.n_cells)


def _loss_km(channel: Channel, prior: FloatArray, city: City) -> float:
    return float(prior @ (channel.matrix() * city.distance.matrix_km).sum(axis=1))


def _loss_of(table: IntArray, channel: FloatArray, prior: FloatArray, city: City) -> float:
    """Return the expected loss of a channel whose outputs go through a table."""
    return float(prior @ (channel * city.distance.matrix_km[:, table]).sum(axis=1))


def _likelihoods(contest: Contest, design: Design) -> FloatArray:
    """Return the likelihood row of every report of a PEB run."""
    rows: list[FloatArray] = []

    class Listener:
        """Takes down what anybody can see."""

        def observe(self, report: Report) -> Guess:
            assert report.channel is not None
            rows.append(report.channel.likelihood(report.output))
            return Guess(report.user, report.index, report.output)

    contest.peb(design, attack=Listener())
    return np.array(rows)


_PASS = "one gradient pass over the likelihoods (numpy, two mat-vecs)"
_STEP = "one vector @ matrix over the cells (numpy)"
_SECOND = "a second: the least that a chunk is to last"
_PRODUCT = "weights @ distance: the n x n x n product in numpy"

ROWS = (
    Row("peb", "a PEB query at r = 300", _PASS, "at_most", 12, "s", measure_peb),
    Row(
        "peb-expected",
        "the same with expected figures",
        _PASS,
        "at_most",
        24,
        "s",
        partial(measure_peb, expected=True),
    ),
    Row("peb-large", "a PEB query at r = 300, 2,500 cells", _PASS, "at_most", 12, "s", measure_peb_large),
    Row("mk", "an MK query", _STEP, "at_most", 12, "s", measure_markov),
    Row(
        "mk-expected",
        "the same with expected figures",
        _STEP,
        "at_most",
        24,
        "s",
        partial(measure_markov, expected=True),
    ),
    Row("peb-mk", "a PEB-MK query", "an MK query", "at_most", 3, "s", measure_gravity),
    Row("sp", "an SP query among 1,000 agents", "one bare SimPy timeout", "at_most", 10, "s", measure_sporadic),
    Row("remap", "the remap of all outputs", _PRODUCT, "at_least", 30, "s", measure_remap),
    Row(
        "peb-run",
        "a PEB run of 300 queries",
        "EM from uniform and the textbook's remap at every query",
        "at_least",
        100,
        "s",
        measure_peb_run,
    ),
    Row("qif", "the remap of all outputs", "qif.measure.l_risk.strategy", "at_least", 50, "s", measure_qif),
    Row("optimal", "an optimal mechanism for 100 cells", "20 s", "at_most", 1, "s", measure_optimal),
    Row("memory", "PEB users", "their likelihood rows", "at_most", 1.2, "bytes", measure_memory),
    Row("growth", "growth of a PEB query with r", "linear in r", "at_most", 1.1, "exponent", measure_growth),
    Row("simulation", "a simulation of one query", "one of 1,000 SP queries", "at_most", 0.5, "s", measure_simulation),
    *(
        Row(
            f"chunk-{pool}",
            f"a chunk of one query, {where}",
            _SECOND,
            "at_most",
            0.05,
            "s",
            partial(measure_chunk, pool=pool),
        )
        for pool, where in {"here": "in this process", "workers": "2 workers", "dask": "2 Dask workers"}.items()
    ),
    Row("workers", "a sweep on two workers", "the same on one", "at_least", 1.8, "s", measure_workers),
    Row("driver", "the driver of 100,000 simulations", "that of 100", "at_most", 1.5, "bytes", measure_driver),
)
