"""Measure a scenario on a sample: generate the lives of a few users, and simulate each LPPM with them."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sim.attack.identification import IdentificationParameters
from sim.belief.estimated_profile import EstimatedProfileParameters
from sim.belief.forgetting import Forgetting
from sim.components.imports import ComponentError
from sim.errors import InputError, input_errors
from sim.execution.chunks import FailedSimulation, run_chunk
from sim.execution.cost.reduction import (
    EXACT_QUERIES,
    EXACT_USERS,
    LONGEST_PROBE,
    cut_by,
    length_of,
    longest_probe,
    named_users,
    reduced,
    sample,
)
from sim.execution.plan import Chunk
from sim.execution.population_cache import PopulationCache
from sim.execution.secrets import built, found_secret, is_declared
from sim.mobility.synthetic.city import DEFAULT_USERS
from sim.mobility.traces import LONGEST
from sim.scenario.lppms import LPPMSpec
from sim.scenario.models import Scenario
from sim.scenario.sweep import Point
from sim.simulation.interrupts import ComponentExit, described, raised_at
from sim.simulation.population import Population
from sim.simulation.setting import Setting

SAMPLED_USERS = 20
"""Maximum number of users whose lives are generated otherwise."""
SAMPLED_QUERIES = 50_000
"""Approximate number of queries of all sampled users: fewer users are sampled if their lives are long."""
CROWD_USERS, CROWD_QUERIES = 500, 20_000
"""Maximum number of sampled users of a population larger than `EXACT_USERS`, and about the number of their queries:
the time of a short life is measured precisely only with many of them."""
PROBED_USERS, PROBED_QUERIES = 4, 10_000
"""Minimum number of simulated users, and number of queries that they make together."""
LEAST_TREND = 100
"""Minimum number of simulated queries from which the growth of their time is extrapolated, up to twice as many."""
_SHORT_S = 1.0
"""Probes that take less time are repeated, and the faster one counts."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Measurements of the users of one setting."""

    setting: str
    users: int
    lengths: tuple[int, ...]
    """Number of queries of each sampled user."""
    past: float
    """Mean number of queries in the past of a user."""
    exact: bool
    """Whether all users were sampled."""
    once_s: float
    """CPU time to build the world and the training sets of other people."""
    each_s: float
    """CPU time to generate the life of one user, in each replication."""
    readings: dict[str, dict[str, Any]]
    """Statistics of each trace file read."""
    unchecked: str | None = None
    """Description of a rule that could not be checked on a sample."""


@dataclass(frozen=True, slots=True)
class Rate:
    """CPU time to simulate one LPPM: fixed for each simulation, plus that of each user with a number of queries."""

    lppm: str
    fixed_s: float
    user_s: float
    queries: float
    complete: bool
    """Whether all queries of the probe were simulated within its time limit."""
    candidate_s: float = 0.0
    """Additional time of a user for each further candidate of an identification attack."""
    next_s: float | None = None
    """Time of the query after the last simulated one; None: the mean of all."""
    growth_s: float = 0.0
    """Increase of the time of a query with each report, for mechanisms that learn."""
    grows_until: float = math.inf
    """Number of reports beyond which the time of a query is assumed not to grow."""

    def seconds(self, queries: float) -> float:
        """Return the time of a user with a number of queries: as measured, extrapolated linearly beyond the probe."""
        if queries <= self.queries:
            return self.user_s * queries / self.queries
        next_s = self.user_s / self.queries if self.next_s is None else self.next_s
        further = queries - self.queries
        growing = min(further, max(self.grows_until - self.queries, 0.0))
        return self.user_s + next_s * further + self.growth_s * growing * (further - growing / 2)


@dataclass(frozen=True, slots=True)
class Secret:
    """Whether the outputs of a custom LPPM depend on a secret."""

    lppm: str
    approximation: str | None
    """Approximation that adversaries make who track the secret, empty if exact; None without a secret."""


Report = Prepared | Rate | Secret


def count_without_living(scenario: Scenario) -> tuple[int, int] | None:
    """Return the number of users and of queries of each, if the scenario alone determines them; otherwise None."""
    users = scenario.users
    if users.queries_each is None or scenario.shifts:
        return None
    return users.count or DEFAULT_USERS, users.queries_each


def measurements(
    settings: Sequence[Point], lppms: Mapping[str, Point], *, measure: bool, measure_s: float, prepare_s: float
) -> Iterator[Report]:
    """Yield the measurements of each setting, the secrets of custom LPPMs and, if `measure`, the rates of all LPPMs.

    `lppms` has the point of each LPPM. Settings are skipped after `prepare_s` seconds. The LPPMs share the rest of
    `measure_s` seconds: each is stopped, between two queries, when it has used an equal share of what the ones before
    it left. Fast ones come first: they need less than their share. Optimal designs come last, because their linear
    programs cannot be interrupted.
    """
    began_s = time.monotonic()
    made: dict[str, Setting] = {}
    for point in [*lppms.values(), *settings]:
        if point.setting in made or (made and time.monotonic() - began_s > prepare_s):
            continue
        with input_errors("scenario"):
            made[point.setting], report = _prepare(point)
        yield report
    known = [(lppm, point) for lppm, point in lppms.items() if point.setting in made]
    for lppm, point in known:
        spec = _spec_of(lppm, point.scenario)
        component = built(spec, made[point.setting].world)
        if not is_declared(spec):
            yield Secret(lppm, found_secret(component, spec))
    if not measure:
        return
    stop_s = began_s + measure_s
    known.sort(key=lambda probe: _order(_spec_of(probe[0], probe[1].scenario)))
    for place, (lppm, point) in enumerate(known):
        share_s = (stop_s - time.monotonic()) / (len(known) - place)
        yield _rate(lppm, point, made[point.setting], max(share_s, measure_s / len(known) / 4))


def _order(spec: LPPMSpec) -> tuple[bool, bool, bool, bool]:
    learns = isinstance(spec.belief, EstimatedProfileParameters)
    regularises = isinstance(spec.belief, EstimatedProfileParameters) and spec.belief.regularise is not None
    return _is_optimal(spec), regularises, learns, not spec.is_memoryless


def _spec_of(lppm: str, scenario: Scenario) -> LPPMSpec:
    return next(spec for spec in scenario.lppms if spec.name == lppm)


def _is_optimal(spec: LPPMSpec) -> bool:
    return spec.design.kind.startswith("optimal_")


def _prepare(point: Point) -> tuple[Setting, Prepared]:
    """Build the world of a setting, generate the lives of some users, and measure both."""
    scenario = point.scenario
    began_s = time.process_time()
    setting = Setting(reduced(scenario))
    setting.world, setting.mobility, setting.demand  # noqa: B018 - built on first access
    everybody = setting.users
    built_s = time.process_time() - began_s
    setting.users = sample(everybody, _sample_size(setting, everybody), named_users(scenario))
    began_s, unchecked = time.process_time(), None
    population = Population(setting, 0)
    try:
        lives = population.lives
    except InputError as error:
        if not scenario.shifts or len(setting.users) == len(everybody):
            raise
        # A shift may affect none of the sampled users and some of the others.
        unchecked = f"shifts ({error})"
        setting = copy.copy(setting)
        setting.scenario = setting.scenario.model_copy(update={"shifts": []})
        population = Population(setting, 0)
        lives = population.lives
    each_s = (time.process_time() - began_s) / len(lives)
    lengths = [length_of(life.test.times_s, scenario) for life in lives.values()]
    past = sum(len(life.past) for life in lives.values()) / len(lives)
    lived = sum(len(life.past) + len(life.test) for life in lives.values()) / len(lives)
    began_s = time.process_time()
    _train(population)
    once_s = built_s + (time.process_time() - began_s) * cut_by(scenario, setting.scenario)
    exact = False
    mean = sum(lengths) / len(lengths)
    if mean > 1.5 * LONGEST:
        raise InputError(
            f"users: each user makes about {mean:,.0f} queries, at most {LONGEST:,} are allowed; reduce `queries` or "
            "`days`, or choose a slower demand",
            code="too-many-queries",
        )
    if (counts := count_without_living(scenario)) is not None:
        lengths, exact = [counts[1]], True
    elif len(everybody) <= EXACT_USERS and (mean + past) * len(everybody) <= EXACT_QUERIES:
        lengths, exact = _all_lengths(scenario, setting, everybody), True
    each_s *= max((mean + past) / lived, 1.0) if lived else 1.0
    report = Prepared(
        point.setting, len(everybody), tuple(lengths), past, exact, once_s, each_s, setting.readings(), unchecked
    )
    return setting, report


def _sample_size(setting: Setting, users: Sequence[str]) -> int:
    """Return the number of users to sample: fewer if the life of the first user is long."""
    if setting.scenario.shifts:  # a shift may need more than one user
        return SAMPLED_USERS
    first = Population(_with_users(setting, users[:1]), 0).lives[users[0]]
    # Two are enough for training on other users.
    length = len(first.past) + len(first.test)
    crowd = min(CROWD_USERS, CROWD_QUERIES // length) if len(users) > EXACT_USERS else 0
    return max(min(SAMPLED_USERS, max(SAMPLED_QUERIES // length, 2)), crowd)


def _all_lengths(scenario: Scenario, setting: Setting, users: Sequence[str]) -> list[int]:
    """Return the number of queries of each user, with the full past that training needs."""
    whole = _with_users(setting, users)
    whole.scenario = scenario
    population = Population(whole, 0)
    return [len(trace) for trace in population.traces]


def _train(population: Population) -> None:
    for training in population.scenario.training:
        known = population.knowledge(training)
        for user in population.setting.users:
            known(user)


def _with_users(setting: Setting, users: Sequence[str]) -> Setting:
    """Return the same setting with some of its users."""
    other = copy.copy(setting)
    vars(other).pop("shifts", None)
    other.users = list(users)
    return other


class _Enough(Exception):
    """Time limit of a probe."""


class _Clock:
    """Callback that records the CPU time after each query and stops a probe at its time limit."""

    def __init__(self, limit_s: float) -> None:
        self.stamps_s: list[float] = []
        self._began_s, self._limit_s = time.monotonic(), limit_s

    def __call__(self, queries: int) -> None:
        self.stamps_s += [time.process_time()] * queries
        if time.monotonic() - self._began_s > self._limit_s:
            raise _Enough


@dataclass(frozen=True, slots=True)
class _Timed:
    """CPU time of a probe, the CPU time after each of its queries, and whether it simulated all of them."""

    seconds: float
    stamps_s: list[float]
    complete: bool


def _blame(failed: FailedSimulation, scenario: Scenario) -> None:
    """Raise an error of custom code as a user error; errors of shipped code keep their traceback."""
    error = failed.__cause__
    if error is None or not scenario.own_components():
        return
    if not isinstance(error, Exception):
        raise ComponentExit(f"lppms.{failed.lppm}: {described(error)}") from failed
    raise ComponentError(
        f"lppms.{failed.lppm}: {raised_at(error)} raised {error!r}; a run with --chunk shows the full traceback",
        code="component-failed",
    ) from failed


def _rate(lppm: str, point: Point, setting: Setting, limit_s: float) -> Rate:
    """Simulate one LPPM for one user and for a few; the difference is the time of an additional user."""
    began_s = time.monotonic()
    one = setting.users[:1]
    first = _timed(lppm, point, setting, one, limit_s)
    spec = _spec_of(lppm, point.scenario)
    simulated = len(first.stamps_s)
    next_s, growth_s = trend(first.stamps_s, learns=not spec.is_memoryless and simulated >= LEAST_TREND)
    # Fixed costs count for each user: an overestimate is better than an underestimate.
    rate = Rate(lppm, 0.0, first.seconds, simulated, first.complete)
    rate = replace(rate, next_s=next_s, growth_s=growth_s, grows_until=min(_memory(spec), 2 * simulated))
    left_s = max(limit_s - (time.monotonic() - began_s), 0.0)
    affordable = int(left_s / max(first.seconds, 1e-4))
    few = setting.users[: min(_probed_users(point.scenario, setting), max(affordable, 1))]
    if not first.complete or len(few) == 1:
        return rate
    all_of = _timed(lppm, point, setting, few, left_s)
    if not all_of.complete:
        return rate
    user_s = max(all_of.seconds - first.seconds, 0.0) / (len(few) - 1)
    fixed_s = max(first.seconds - user_s, 0.0)
    user_s = max(user_s, (all_of.seconds - fixed_s) / len(few))
    rate = replace(rate, fixed_s=fixed_s, user_s=user_s, queries=len(all_of.stamps_s) / len(few))
    rest = setting.users[2:]
    if not rest or not any(isinstance(attack, IdentificationParameters) for attack in point.scenario.attacks):
        return rate
    crowd = _timed(lppm, point, setting, one, limit_s / 2, silent=rest)
    return replace(rate, candidate_s=max(crowd.seconds - first.seconds, 0.0) / len(rest)) if crowd.complete else rate


def trend(stamps_s: Sequence[float], *, learns: bool) -> tuple[float | None, float]:
    """Return the time of the next query and its increase with each query, from the CPU time after each query.

    The second half of the queries is compared with the first; the first query, with one-time costs, is left out. The
    increase is not negative, and 0 if the mechanism does not learn. A query takes at most in proportion to the reports,
    which limits the increase where few queries were simulated.

    >>> trend([0.0, 1.0, 3.0, 6.0, 10.0], learns=True)
    (5.0, 1.0)
    """
    half = (len(stamps_s) - 1) // 2
    if half < 1:
        return None, 0.0
    late_s = (stamps_s[-1] - stamps_s[-1 - half]) / half
    if not learns:
        return late_s, 0.0
    early_s = (stamps_s[-1 - half] - stamps_s[-1 - 2 * half]) / half
    middle_of_late = len(stamps_s) - (half + 1) / 2
    growth_s = min(max(late_s - early_s, 0.0) / half, late_s / middle_of_late)
    return late_s + growth_s * (half + 1) / 2, growth_s


def _memory(spec: LPPMSpec) -> float:
    """Return the number of reports that the belief of an LPPM remembers."""
    forget = spec.belief.forget if isinstance(spec.belief, EstimatedProfileParameters) else None
    window = forget.window if isinstance(forget, Forgetting) else None
    return math.inf if window is None else float(window)


def _probed_users(scenario: Scenario, setting: Setting) -> int:
    """Return the number of users to simulate: more if they make few queries, whose time is short and varies."""
    if any(isinstance(attack, IdentificationParameters) for attack in scenario.attacks):
        return PROBED_USERS
    queries = min(setting.scenario.users.queries or LONGEST_PROBE, LONGEST_PROBE)
    return max(PROBED_USERS, PROBED_QUERIES // queries)


def _timed(
    lppm: str, point: Point, setting: Setting, users: Sequence[str], limit_s: float, silent: Sequence[str] = ()
) -> _Timed:
    """Simulate some users; few of them twice if there is time, of which the faster counts."""
    began_s = time.monotonic()
    timed = _once(lppm, point, setting, users, limit_s, silent)
    left_s = limit_s - (time.monotonic() - began_s)
    if len(users) <= PROBED_USERS and timed.complete and timed.seconds < _SHORT_S and left_s > 2 * timed.seconds:
        # A one-time cost, such as a garbage collection, would count for every query.
        again = _once(lppm, point, setting, users, left_s, silent)
        timed = again if again.complete and again.seconds < timed.seconds else timed
    return timed


def _once(
    lppm: str, point: Point, setting: Setting, users: Sequence[str], limit_s: float, silent: Sequence[str]
) -> _Timed:
    # The next user takes part without queries: a mechanism may be trained on their past.
    chosen = list(
        dict.fromkeys([*users, *setting.users[len(users) : len(users) + 1], *silent, *named_users(setting.scenario)])
    )
    population = Population(_with_users(setting, chosen), 0)
    population.lives = {
        user: life.first(longest_probe(point.scenario) if user in users else 0)
        for user, life in population.lives.items()
    }
    clock = _Clock(limit_s)
    chunk = Chunk(f"probe of {lppm}", point, range(1), (lppm,))
    began_s = time.process_time()
    complete = True
    try:
        run_chunk(chunk, PopulationCache.of(population, point), clock)
    except _Enough:
        complete = False
    except FailedSimulation as failed:
        if not isinstance(failed.__cause__, _Enough):
            _blame(failed, point.scenario)
            raise
        complete = False
    return _Timed(time.process_time() - began_s, clock.stamps_s, complete)
