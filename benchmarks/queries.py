"""Rows about queries: cost of a query of a simulation in time and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from benchmarks import limits
from benchmarks.memory import bytes_of_users
from benchmarks.people import EVERY_S, GAP, City, Contest, Run, timed_run
from benchmarks.scale import Scale
from benchmarks.targets import Measurement
from benchmarks.timing import Samples, median_case, seconds_of, side_by_side
from sim.attack.optimal import OptimalAttack
from sim.belief.fixed_profile import FixedProfile
from sim.events import Guess, Report
from sim.interfaces import Design, FloatArray
from sim.lppm.mechanism import Mechanism


def measure_peb(scale: Scale, *, expected: bool = False) -> Measurement:
    """Time one PEB query at the end of a run: estimate, remap, sample, attack, record."""
    return _peb(scale, scale.shape, scale.designs, scale.rounds, expected=expected)


def measure_peb_large(scale: Scale) -> Measurement:
    """Time one PEB query on a grid with many cells."""
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
    """Time one PEB-MK query and one MK query, each with its share of the event log."""
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
    """Time one SP query in a simulation with many users: sample, attack, record."""
    city = City(scale.shape)
    traces = [city.trace(f"agent-{number}", scale.agent_queries) for number in range(scale.agents)]
    beliefs = {trace.user: FixedProfile(profile=city.statistics(trace).profile) for trace in traces}
    training = city.statistics(city.trace("another user", scale.queries)).profile
    queries = scale.agents * scale.agent_queries

    def per_query(design: Design) -> float:
        # One mechanism for all users, as in the simulator: users with the same statistics share a fixed belief.
        mechanism = Mechanism(belief=FixedProfile(profile=training), design=design)
        attack = OptimalAttack(belief_of=beliefs.__getitem__, distance=city.distance)
        return timed_run(city, traces, lambda _user: mechanism, attack, stamped=False).total_s / queries

    def per_timeout() -> float:
        return seconds_of(lambda: limits.bare_timeouts(scale.agents, scale.agent_queries, EVERY_S)) / queries

    cases = _cases(city, scale.long_designs, per_query, per_timeout, scale.long_rounds)
    return Measurement(*median_case(cases), cases, note=f"{scale.agents:,} agents x {scale.agent_queries}")


def measure_peb_run(scale: Scale) -> Measurement:
    """Time a whole PEB run, and textbook EM for the same reports."""
    city = City(scale.shape)
    contest = Contest(city, scale.queries)
    # In the middle of equal segments of the run; estimates start at the second query.
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
    """Measure the memory of many PEB users in a separate process, without that of its imports."""
    users, queries, (rows, cols) = scale.memory_users, scale.queries, scale.shape
    taken = bytes_of_users(users, queries, scale.shape, GAP)
    return Measurement(taken, users * queries * rows * cols * 8, note=f"{users:,} users x {queries} queries")


def measure_growth(scale: Scale) -> Measurement:
    """Fit the exponent of r with which the cost of a PEB query grows."""
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


def _cases(
    city: City, designs: Sequence[str], measure: Callable[[Design], float], limit: Callable[[], float], rounds: int
) -> dict[str, Samples]:
    """Measure each design together with its limit."""
    return {
        name: side_by_side(partial(measure, design), limit, rounds=rounds)
        for name, design in city.designs(designs).items()
    }


def _certified(worst_gap: float) -> dict[str, Any]:
    fault = "" if worst_gap <= GAP else f"certified gap too large: {worst_gap:.2g}, allowed is {GAP}"
    return {"note": f"certified gap at most {worst_gap:.2g}", "fault": fault}


def _likelihoods(contest: Contest, design: Design) -> FloatArray:
    """Return the likelihood row of every report of a PEB run."""
    rows: list[FloatArray] = []

    class Listener:
        """Attack that stores the likelihoods of the reports."""

        def observe(self, report: Report) -> Guess:
            assert report.channel is not None
            rows.append(report.channel.likelihood(report.output))
            return Guess(report.user, report.index, report.output)

    contest.peb(design, attack=Listener())
    return np.array(rows)
