"""Rank the calibrated candidates by their strongest attack, with paired intervals between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from sim.analysis.result import Result
from sim.analysis.statistics import FEWEST_USERS
from sim.analysis.summary import preferred
from sim.choice.request import Request
from sim.execution.calibration.goals import user_errors_km
from sim.execution.calibration.home_goal import HomeGoal, days_known, home_curve
from sim.execution.calibration.points import Calibrated
from sim.execution.calibration.search import CLOSE
from sim.interfaces import FloatArray
from sim.scenario.models import Scenario
from sim.storage.event_schema import ATTACK, LPPM, QUALITY_LOSS_KM, QUERY_EVENT, REPLICATION, USER

_CONFIDENCE = 0.95
_AT = 0.95
_LITTLE = 0.25
"""Ratio of error to loss below which a mechanism protects little; optimal mechanisms reach 1 on their own model."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence limits, NaN if they are unknown."""

    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """The larger distance from the mean to a limit."""
        return max(self.high - self.value, self.value - self.low)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A calibrated mechanism with its metrics in the comparison."""

    name: str
    parameter: str
    strength: float
    outcome: str
    """Whether search and comparison reach the target within `CLOSE`: reached, nearest or unreachable."""
    realised: float
    """Metric of the goal in the comparison: loss or error in km, or the share of hidden homes."""
    loss_km: Interval
    """Mean loss over the users."""
    loss_95_km: float
    """Loss that 95 % of the users do not exceed."""
    strongest: str
    """The strongest attack."""
    error_km: Interval
    """Mean error of the strongest attack over the users."""
    errors_km: dict[str, float]
    """Mean error of each attack."""
    hidden: Interval | None
    """Share of users whose home is hidden for the days asked for, against the attack that knows most of them."""
    behind: Interval | None
    """Paired difference to the first candidate, in km: of the error if the loss is given, else of the loss."""

    @property
    def is_distinguishable(self) -> bool:
        """Whether it is significantly worse than the first candidate."""
        return self.behind is not None and self.behind.low > 0


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates from the best to the worst."""

    candidates: list[Candidate]
    users: int

    @property
    def best(self) -> Candidate:
        """The choice."""
        return self.candidates[0]

    @property
    def ties(self) -> list[str]:
        """Names of the candidates that cannot be distinguished from the best."""
        return [one.name for one in self.candidates[1:] if not one.is_distinguishable]

    def described(self) -> list[dict[str, Any]]:
        """Return the candidates as plain data, without NaN."""
        return [_plain(asdict(one)) for one in self.candidates]


def ranked(result: Result, scenario: Scenario, request: Request, calibrated: Mapping[str, Calibrated]) -> Ranking:
    """Return the candidates of a run in order; the first has the largest error, or the smallest loss if it is free."""
    losses, errors, days = _by_user(result, scenario, request)
    measured = {}
    for lppm in scenario.lppms:
        strongest = _strongest(errors[lppm.name], days.get(lppm.name), request)
        loss_km = _floats(losses[lppm.name].groupby(level=USER).mean())
        measured[lppm.name] = strongest, _of_attack(errors[lppm.name], strongest), loss_km
    if request.limits_loss:
        order = sorted(measured, key=lambda name: -float(measured[name][1].mean()))
    else:
        order = sorted(measured, key=lambda name: float(measured[name][2].mean()))
    first = measured[order[0]]
    candidates = []
    for name in order:
        strongest, error_km, loss_km = measured[name]
        worse = first[1] - error_km if request.limits_loss else loss_km - first[2]
        one = calibrated[name]
        hidden = None if request.kind != "hide-home" else _hidden(days[name].xs(strongest, level=ATTACK), request)
        realised = _realised(request, losses[name], error_km, hidden)
        candidates.append(
            Candidate(
                name,
                one.parameter,
                one.strength,
                _outcome(one, realised),
                realised,
                mean_interval(loss_km),
                float(np.quantile(loss_km, _AT, method="inverted_cdf")),
                strongest,
                mean_interval(error_km),
                {str(attack): float(own.mean()) for attack, own in errors[name].groupby(level=ATTACK)},
                hidden,
                None if name == order[0] else mean_interval(worse, comparisons=len(order) - 1),
            )
        )
    return Ranking(candidates, users=len(first[2]))


def is_close(realised: float, target: float) -> bool:
    """Return whether a realised metric counts as the target, as at jumps of a calibration.

    >>> is_close(0.497, 0.5), is_close(0.480, 0.5)
    (True, False)
    """
    return abs(realised - target) <= CLOSE * target


def _realised(request: Request, losses_km: pd.Series[float], error_km: FloatArray, hidden: Interval | None) -> float:
    """Return the metric of the goal in the comparison, which has other replications than the calibration."""
    if hidden is not None:
        return hidden.value
    if request.limits_loss:
        by_replication = losses_km.unstack(USER).to_numpy(float)
        return float(request.goal.over_users(by_replication).mean())
    return float(error_km.mean())


def _outcome(one: Calibrated, realised: float) -> str:
    """Return the outcome of the search, which the comparison must confirm."""
    outcome = one.solution.outcome
    return "nearest" if outcome == "reached" and not is_close(realised, one.target) else outcome


def mean_interval(values: FloatArray, *, comparisons: int = 1) -> Interval:
    """Return a mean with its 95 % t-interval over users, simultaneous for a number of comparisons (Bonferroni).

    The limits are NaN for fewer than five users.

    >>> mean = mean_interval(np.arange(1.0, 6.0))
    >>> mean.value, round(mean.low, 3), round(mean.high, 3)
    (3.0, 1.037, 4.963)
    """
    mean = float(values.mean())
    if values.size < FEWEST_USERS:
        return Interval(mean, np.nan, np.nan)
    quantile = stdtrit(values.size - 1, 1 - (1 - _CONFIDENCE) / (2 * comparisons))
    half = float(quantile * values.std(ddof=1) / np.sqrt(values.size))
    return Interval(mean, mean - half, mean + half)


def _by_user(
    result: Result, scenario: Scenario, request: Request
) -> tuple[dict[str, pd.Series[float]], dict[str, pd.Series[float]], dict[str, pd.Series[float]]]:
    """Return losses, errors and signed days by LPPM.

    Losses are by replication and user, errors by attack and user, days by attack, user and replication.
    """
    world = scenario.build_world()
    losses: dict[str, list[pd.Series[float]]] = {}
    errors: dict[str, list[pd.Series[float]]] = {}
    days: dict[str, list[pd.Series[float]]] = {}
    for name, own in _parts(result):
        errors.setdefault(name, []).append(user_errors_km(own))
        one_attack = own[own[ATTACK] == own[ATTACK].iloc[0]]
        present = one_attack[one_attack["estimated_index"] == one_attack["index"]]
        loss_km = preferred(present, QUALITY_LOSS_KM)
        losses.setdefault(name, []).append(loss_km.groupby([present[REPLICATION], present[USER]]).mean())
        if isinstance(request.goal, HomeGoal):
            online = own[own["estimated_index"] == own["index"]]
            days.setdefault(name, []).append(days_known(online, world, request.within_km))
    return (
        {name: pd.concat(parts) for name, parts in losses.items()},
        {name: pd.concat(parts).groupby(level=[ATTACK, USER]).mean() for name, parts in errors.items()},
        {name: pd.concat(parts) for name, parts in days.items()},
    )


def _parts(result: Result) -> Iterator[tuple[str, pd.DataFrame]]:
    for part in result.iter_events():
        queries = part[part["event"] == QUERY_EVENT]
        yield from ((str(name), own) for name, own in queries.groupby(LPPM, sort=False))


def _strongest(errors: pd.Series[float], days: pd.Series[float] | None, request: Request) -> str:
    """Return the attack with the smallest mean error, or the one that knows most homes."""
    goal = request.goal
    if isinstance(goal, HomeGoal) and days is not None:
        shares = {str(attack): goal.hidden_share(_floats(own)) for attack, own in days.groupby(level=ATTACK)}
        return min(shares, key=lambda attack: shares[attack])
    return str(errors.groupby(level=ATTACK).mean().idxmin())


def _hidden(days: pd.Series[float], request: Request) -> Interval:
    """Return the share of homes hidden for the days asked for; limits as for independent users of one replication."""
    replications = [_floats(own) for _, own in days.groupby(level=REPLICATION)]
    rates = [home_curve(own).at(request.target) for own in replications]
    return Interval(*(float(np.mean([getattr(rate, name) for rate in rates])) for name in ("value", "low", "high")))


def _of_attack(errors: pd.Series[float], attack: str) -> FloatArray:
    return _floats(errors.xs(attack, level=ATTACK))


def _floats(values: Any) -> FloatArray:
    return np.asarray(values, dtype=float)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return None if isinstance(value, float) and np.isnan(value) else value


def sentences(ranking: Ranking, request: Request) -> Sequence[str]:
    """Return the conclusion in words: the choice, its price, the runner-up, and what cannot be distinguished."""
    best = ranking.best
    lines = [
        f"To {request.words}, use {best.name} with {best.parameter} {best.strength:.4g}.",
        f"Its price: a mean quality loss of {_km(best.loss_km)}; 95 % of users lose at most {best.loss_95_km:.2f} km. "
        f"Its protection: {_protection(best, request)}.",
    ]
    if len(ranking.candidates) > 1:
        second = ranking.candidates[1]
        lines.append(
            f"Runner-up: {second.name} with {second.parameter} {second.strength:.4g}, {_difference(second, request)}."
        )
    lines += _unequal(ranking, request)
    if ranking.users < FEWEST_USERS:
        few = "1 user is" if ranking.users == 1 else f"{ranking.users} users are"
        lines.append(f"{few} too few for intervals: the order is not significant.")
    elif ranking.ties:
        lines.append(
            f"Not distinguishable from {best.name} with these {ranking.users} users: {', '.join(ranking.ties)} "
            "(paired differences, 95 % intervals for all comparisons together)."
        )
    elif len(ranking.candidates) > 1:
        lines.append(f"{best.name} is significantly better than every other candidate ({ranking.users} users).")
    if request.limits_loss and best.error_km.value < _LITTLE * best.loss_km.value:
        lines.append(
            f"None of the candidates protects much at this loss: the error of {best.strongest} is a small part of it."
        )
    if best.outcome == "unreachable":
        lines.append(f"Note: {best.name} is at the end of its range; the goal leaves room that it cannot use.")
    return lines


def _unequal(ranking: Ranking, request: Request) -> Iterator[str]:
    """Yield a caveat if candidates realise other values of the goal, which their order mixes with the comparison."""
    target = request.target_value
    others = [one for one in ranking.candidates if not is_close(one.realised, target)]
    if not others or len(ranking.candidates) == 1:
        return
    metric, compared = {
        "max-loss": ("losses", "errors"),
        "min-error": ("errors", "losses"),
        "hide-home": ("shares of hidden homes", "losses"),
    }[request.kind]
    each = ", ".join(f"{one.name} {one.realised:.3f} ({100 * (one.realised / target - 1):+.0f} %)" for one in others)
    unit = "" if request.kind == "hide-home" else " km"
    yield (
        f"The {metric} of the candidates differ from the goal of {target:g}{unit}: {each}. "
        f"Their {compared} are not compared at equal {metric}."
    )


def _protection(one: Candidate, request: Request) -> str:
    error = f"the strongest attack, {one.strongest}, errs by {_km(one.error_km)} on average"
    if one.hidden is None or request.kind != "hide-home":
        return error
    limits = (
        ""
        if np.isnan(one.hidden.low)
        else f" (95 % interval {100 * one.hidden.low:.0f} to {100 * one.hidden.high:.0f} %)"
    )
    return f"{100 * one.hidden.value:.0f} % of the homes are hidden after {request.target:g} days{limits}; {error}"


def _difference(one: Candidate, request: Request) -> str:
    assert one.behind is not None
    what = "km less error" if request.limits_loss else "km more loss"
    half = "" if np.isnan(one.behind.low) else f" ± {one.behind.half:.3f}"
    return f"{one.behind.value:.3f}{half} {what}"


def _km(value: Interval) -> str:
    return f"{value.value:.2f} km" if np.isnan(value.low) else f"{value.value:.2f} ± {value.half:.2f} km"
