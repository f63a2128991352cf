"""Reduce a scenario before it is measured: shorter lives, fewer people in training sets, a sample of the users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.mobility.recorded.replay import ReplayParameters
from sim.mobility.synthetic.city import DEFAULT_USERS
from sim.mobility.traces import DAY_S
from sim.mobility.training.others import OthersParameters
from sim.scenario import people
from sim.scenario.models import Scenario

LONGEST_PROBE = 300
"""Maximum number of simulated queries of one user; the cost of a mechanism that learns grows with their number."""
EXACT_USERS, EXACT_QUERIES = 2_000, 100_000
"""Maximum numbers of users and of queries (past and test) for which all lives are generated and counted exactly."""
MOST_OTHERS, SAMPLED_OTHERS = 1_000, 20
"""Maximum number of people in a training set that is counted completely, and of sampled people otherwise."""
LONGEST_PAST_DAYS, LONGEST_PAST = 30.0, 5_000


def sample(users: Sequence[str], count: int, named: Sequence[str] = ()) -> list[str]:
    """Return `count` evenly spaced users including the first, and those in `named`, in the order of `users`.

    >>> sample(["a", "b", "c", "d", "e"], 2, ["b"])
    ['a', 'b', 'c']
    """
    if len(users) <= count:
        return list(users)
    chosen = {len(users) * k // count for k in range(count)} | {users.index(user) for user in named if user in users}
    return [users[place] for place in sorted(chosen)]


def named_users(scenario: Scenario) -> list[str]:
    """Return the users that shifts name explicitly."""
    return [user for shift in scenario.shifts for user in shift.named_users]


def reduced(scenario: Scenario) -> Scenario:
    """Return the scenario with long lives shortened and large training sets reduced."""
    users, changes = scenario.users, dict[str, Any]()
    if not isinstance(users.mobility, ReplayParameters):
        changes["users"] = users.model_copy(update=_shorter(users, scenario))
    training = {
        name: spec.model_copy(update=_fewer(spec, scenario)) if isinstance(spec, OthersParameters) else spec
        for name, spec in scenario.training.items()
    }
    return scenario.model_copy(update=changes | {"training": training})


def _shorter(users: people.UsersSpec, scenario: Scenario) -> dict[str, Any]:
    """Return changes that shorten lives, but not to before the last shift."""
    if any(shift.at_day is not None for shift in scenario.shifts):
        return {}
    longest = longest_probe(scenario)
    changes: dict[str, Any] = {"queries": min(users.queries or longest, longest)}
    if users.past_queries is not None:
        changes["past_queries"] = min(users.past_queries, LONGEST_PAST)
    if users.past_days is not None:
        changes["past_days"] = min(users.past_days, LONGEST_PAST_DAYS)
    return changes


def longest_probe(scenario: Scenario) -> int:
    """Return the maximum number of simulated queries of one user: a mechanism is slower after a shift."""
    at_queries = [shift.at_query for shift in scenario.shifts if shift.at_query is not None]
    return LONGEST_PROBE + max(at_queries, default=0)


def _fewer(spec: OthersParameters, scenario: Scenario) -> dict[str, Any]:
    """Return changes that reduce a training set; recorded people are not reduced."""
    if isinstance(spec.mobility or scenario.users.mobility, ReplayParameters):
        return {}
    queries, days = (spec.queries, spec.days) if spec.queries or spec.days else (None, None)
    if queries is None and days is None:
        queries, days = scenario.users.queries, scenario.users.days
    count = spec.count or DEFAULT_USERS
    if days is None and queries is not None and count <= MOST_OTHERS and count * queries <= EXACT_QUERIES:
        return {"queries": queries}
    short = LONGEST_PAST if queries is None else min(queries, LONGEST_PAST)
    return {"count": min(count, SAMPLED_OTHERS), "queries": short, "days": days}


def cut_by(full: Scenario, small: Scenario) -> float:
    """Return the ratio of training data between a scenario and its reduced version, the maximum over training sets."""
    factors = [1.0]
    for name, spec in full.training.items():
        if isinstance(spec, OthersParameters):
            less = small.training[name]
            assert isinstance(less, OthersParameters)
            people_each = (spec.count or DEFAULT_USERS) / (less.count or DEFAULT_USERS)
            queries = spec.queries or full.users.queries
            longer = queries / less.queries if queries is not None and less.queries is not None else 1.0
            factors.append(people_each * max(longer, 1.0))
    return max(factors)


def length_of(times_s: Any, scenario: Scenario) -> int:
    """Return the number of queries of a user from the times of the first ones: by their rate if `days` limit them."""
    users, lived = scenario.users, len(times_s)
    if isinstance(users.mobility, ReplayParameters) or lived < LONGEST_PROBE or users.days is None:
        return lived if users.queries is None or users.days is not None else max(lived, users.queries)
    span_s = max(int(times_s[-1]) - int(times_s[0]), 1)
    by_rate = int((lived - 1) * users.days * DAY_S / span_s)
    return max(lived, by_rate if users.queries is None else min(by_rate, users.queries))
