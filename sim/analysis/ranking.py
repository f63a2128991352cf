"""Ranking of mechanisms by the adversary error at equal quality loss, per attack, and the sentences that report it.

A mechanism is called better only if its lead, paired by user, is significant at 95 % over at least five users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sim.analysis.curves import curve_of_user, interpolate, user_points
from sim.analysis.statistics import FEWEST_USERS, half_width, is_significant, mean_interval, paired_leads
from sim.interfaces import FloatArray
from sim.storage.errors import RequestError

_MOST_LEVEL = 5
"""Maximum number of mechanisms named in a sentence that reports no significant difference."""

Curve = dict[str, tuple[FloatArray, FloatArray]]
"""Sorted losses of one mechanism and the adversary error at each, in km, by user."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Mechanisms in descending order of the adversary error at one quality loss: best protection first."""

    attack: str
    quality_loss_km: float
    errors_km: dict[str, float]
    leads_km: dict[str, tuple[float, float]]
    """Lead of the first mechanism over each other, paired by user, and the half-width of its 95 % confidence interval,
    which is NaN for a single user."""
    users: int
    """Number of users who attain the loss with every mechanism."""
    of_users: int
    """Number of all users."""

    def leads_significantly(self, name: str) -> bool:
        """Return whether the lead over this mechanism is significant, over at least five users."""
        return self.users >= FEWEST_USERS and is_significant(*self.leads_km[name])

    def __str__(self) -> str:
        first, *others = self.errors_km
        # Losses that are not a multiple of 0.1 km get two significant digits; otherwise small ones would read 0.0.
        tenths = abs(self.quality_loss_km - round(self.quality_loss_km, 1)) < 1e-9
        loss = f"{self.quality_loss_km:.1f}" if tenths else f"{self.quality_loss_km:.2g}"
        some = "" if self.users == self.of_users else f" ({self.users} of {self.of_users} users)"
        start = f"Against {self.attack}, at {loss} km of quality loss{some}, "
        value = f"adversary error {self.errors_km[first]:.2f} km"
        answer = verdict(first, self.leads_km, self.users, f"{first} protects best", value)
        behind = [
            f"{name} {self.errors_km[name]:.2f} km ({lower(*self.leads_km[name], self.users)})" for name in others
        ]
        return f"{start}{answer}; {', '.join(behind)}."


Leads = Mapping[str, tuple[float, float]]
"""Lead of the first mechanism over each other, nearest first, and the half-width of its 95 % confidence interval."""


def verdict(first: str, leads: Leads, users: int, best: str, value: str) -> str:
    """Return the main clause of a ranking sentence: the best mechanism and its `value`.

    The clause is `best` if the lead over all others is significant. It is "... ranks first" if only the lead over the
    runner-up (and some others) is significant. Otherwise it names the mechanisms without a significant difference. With
    fewer than five users nothing is tested.
    """
    if users < FEWEST_USERS:
        few = f"{users} users are" if users != 1 else "1 user is"
        return f"{few} too few for a significance test: {first} has {value}"
    level = [name for name, lead in leads.items() if not is_significant(*lead)]
    if not level:
        return f"{best}: {value}"
    if next(iter(leads)) not in level:
        return f"{first} ranks first: {value}"
    *some, last = [first, *level]
    if len(some) > _MOST_LEVEL:
        some, last = some[:_MOST_LEVEL], f"{len(level) + 1 - _MOST_LEVEL} others"
    differences = "difference between {} and {} is" if len(some) == 1 else "differences between {} and {} are"
    return f"the {differences.format(', '.join(some), last)} not significant: {first} has {value}"


def lower(lead: float, half: float, users: int) -> str:
    """Return the difference to the first mechanism and, with at least five users, its interval and significance.

    >>> lower(0.12, 0.03, 9), lower(0.02, 0.03, 9), lower(0.02, 0.03, 2)
    ('0.12 ± 0.03 km lower', '0.02 ± 0.03 km lower, not significant', '0.02 km lower')
    """
    if users < FEWEST_USERS:
        return f"{lead:.2f} km lower"
    return f"{lead:.2f} ± {half:.2f} km lower" + ("" if is_significant(lead, half) else ", not significant")


def rankings(per_user: pd.DataFrame) -> Iterator[Ranking]:
    """Yield a ranking for each attack, at a loss that as many users as possible attain with all mechanisms.

    A mechanism with a single distinct loss for some user has no curve and is excluded. If fewer than half of the users
    share a loss, the attack has none; `remarks` reports it.
    """
    for attack, curves in _curves(per_user).items():
        loss = _common_loss(curves)
        if loss is not None:
            yield _rank(attack, curves, loss)


def remarks(per_user: pd.DataFrame) -> Iterator[str]:
    """Yield sentences on mechanisms that `rankings` cannot compare, with the reason."""
    by_attack = _curves(per_user)
    for attack, curves in by_attack.items():
        if len(curves) > 1 and _common_loss(curves) is None:
            yield (
                f"Against {attack}, mechanisms cannot be compared at equal quality loss: no loss is attained by half "
                f"of the users with each of {', '.join(curves)}. Widen the sweep, or see figures/tradeoff."
            )
    with_curve = {lppm for curves in by_attack.values() for lppm in curves}
    single = [lppm for lppm in dict.fromkeys(per_user["lppm"]) if lppm not in with_curve]
    if single and by_attack:
        alone = with_curve if all(len(curves) < 2 for curves in by_attack.values()) else set()
        yield from _per_km(user_points(per_user[per_user["lppm"].isin({*single, *alone})]))
        reason = "because a single quality loss was simulated (sweep a parameter to obtain several)"
        yield f"Not compared at equal loss, {reason}: {', '.join(single)}."


def _per_km(points: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence per attack on the adversary error per km of loss; `points` is a table of `user_points`.

    It is the ratio of the means over users. Leads are paired by user, with intervals by the delta method.
    """
    for attack in dict.fromkeys(points["attack"]):
        own = points[points["attack"] == attack].groupby(["lppm", "user"])[["loss", "error"]].mean()
        lossy = own[own["loss"].groupby("lppm").transform("min") > 0].unstack("lppm").dropna()
        if len(lossy) == 0 or lossy["loss"].shape[1] < 2:
            continue
        gain = lossy["error"].mean() / lossy["loss"].mean()
        order = list(gain.sort_values(ascending=False, kind="stable").index)
        residuals = (lossy["error"] - gain * lossy["loss"]) / lossy["loss"].mean()
        spread = residuals[order].rsub(residuals[order[0]], axis=0).std(ddof=1)
        halves = half_width(spread, pd.Series(len(lossy), index=spread.index))
        leads = {lppm: (float(gain[order[0]] - gain[lppm]), float(halves[lppm])) for lppm in order[1:]}
        behind = [f"{lppm} {gain[lppm]:.2f} km ({lower(*lead, len(lossy))})" for lppm, lead in leads.items()]
        best = f"{order[0]} has the highest adversary error per km of loss"
        value = f"{gain[order[0]]:.2f} km of error per km of loss"
        answer = verdict(order[0], leads, len(lossy), best, value)
        yield f"Against {attack}, each at its own quality loss, {answer}; {', '.join(behind)}."


AT_LOSS = [
    *("attack", "quality_loss_km", "lppm", "reached", "users", "of_users"),
    *("error_km", "error_km_low", "error_km_high", "error_km_min", "error_km_max"),
    *("against", "difference_km", "difference_km_low", "difference_km_high", "difference_km_min", "difference_km_max"),
]


def at_loss(per_user: pd.DataFrame, losses_km: Sequence[float], *, against: str | None = None) -> pd.DataFrame:
    """Return the adversary error of each LPPM at given quality losses, and its difference from a reference LPPM.

    Errors are interpolated linearly on each user's trade-off curve, without extrapolation. Means and differences, LPPM
    - `against` (default: the first LPPM), are over the `users` who attain the loss with every compared LPPM; `reached`
    is the number of users who attain it with this LPPM, `of_users` the number of all users. Confidence intervals are
    95 % intervals over users (Student's t), paired by user for differences; `_min` and `_max` are the extremes over
    users, which tables show instead with fewer than five users. An LPPM with a single distinct loss for every user has
    no curve and is excluded. Columns: `AT_LOSS`; attacks and LPPMs in order of appearance.
    """
    points = user_points(per_user)
    losses = points.groupby(["lppm", "attack", "user"])["loss"].transform("nunique")
    with_curve = set(points.loc[losses > 1, "lppm"])
    lppms = [lppm for lppm in dict.fromkeys(per_user["lppm"]) if lppm in with_curve]
    if not lppms:
        raise RequestError(
            "no LPPM has two quality losses to interpolate between: sweep a parameter of the LPPMs", code="no-curve"
        )
    against = lppms[0] if against is None else against
    if against not in lppms:
        available = f"available: {', '.join(lppms)}"
        if against in set(per_user["lppm"]):
            raise RequestError(f"LPPM {against!r} has a single quality loss; {available}", code="no-curve")
        raise RequestError(f"no LPPM {against!r} to compare with; {available}", code="unknown-lppm")
    at = np.asarray(losses_km, dtype=float)
    rows: list[dict[str, object]] = []
    for attack in dict.fromkeys(per_user["attack"]):
        of_attack = points[(points["attack"] == attack) & points["lppm"].isin(lppms)]
        interpolated = {
            (lppm, user): interpolate(own, at) for (lppm, user), own in of_attack.groupby(["lppm", "user"], sort=True)
        }
        for i, loss in enumerate(at.tolist()):
            errors = pd.Series({key: values[i] for key, values in interpolated.items()}).unstack(level=0)
            rows += _compared(errors.reindex(columns=lppms), against, attack, loss) if len(errors) else []
    return pd.DataFrame(rows, columns=AT_LOSS)


def _compared(errors: pd.DataFrame, against: str, attack: str, loss: float) -> Iterator[dict[str, object]]:
    """Yield a row for each LPPM; `errors` has the errors of users (rows) by LPPM (columns) at one loss."""
    common = errors.dropna()
    for lppm in errors:
        row: dict[str, object] = {"attack": attack, "quality_loss_km": loss, "lppm": lppm, "against": against}
        row |= {"reached": int(errors[lppm].count()), "users": len(common), "of_users": len(errors)}
        metrics = {"error_km": common[lppm], "difference_km": common[lppm] - common[against]}
        for name, values in metrics.items():
            row |= mean_interval(values, name)
            row |= {f"{name}_min": values.min(), f"{name}_max": values.max()}
        yield row


def _curves(per_user: pd.DataFrame) -> dict[str, dict[str, Curve]]:
    """Return the curves of each mechanism with at least two losses, by attack."""
    curves: dict[str, dict[str, Curve]] = {}
    points = user_points(per_user)
    for attack in [name for name in dict.fromkeys(per_user["attack"]) if name in set(points["attack"])]:
        rows = points[points["attack"] == attack]
        curves[str(attack)] = {
            str(lppm): {str(user): curve_of_user(own) for user, own in of_lppm.groupby("user", sort=True)}
            for lppm, of_lppm in rows.groupby("lppm", sort=True)
            if of_lppm.groupby("user")["loss"].nunique().min() > 1
        }
    return curves


def _shared(curves: dict[str, Curve]) -> dict[str, tuple[float, float]]:
    """Return the interval of losses that a user attains with every mechanism, for users with a non-empty one."""
    users = set.intersection(*(set(curve) for curve in curves.values())) if curves else set()
    shared = {}
    for user in sorted(users):
        low = max(float(curve[user][0][0]) for curve in curves.values())
        high = min(float(curve[user][0][-1]) for curve in curves.values())
        if low < high:
            shared[user] = (low, high)
    return shared


def _common_loss(curves: dict[str, Curve]) -> float | None:
    """Return the multiple of 0.1 km that most users attain with every mechanism; of several the middle one."""
    if len(curves) < 2:
        return None
    shared = _shared(curves)
    if 2 * len(shared) < max(len(curve) for curve in curves.values()):
        return None
    lows, highs = np.array(list(shared.values())).T
    tenths = np.round(np.arange(np.ceil(lows.min() * 10), np.floor(highs.max() * 10) + 1) / 10, 1)
    candidates = np.append(tenths, (lows.max() + highs.min()) / 2)
    reached = ((lows[:, None] <= candidates) & (candidates <= highs[:, None])).sum(axis=0)
    if 2 * reached.max() < max(len(curve) for curve in curves.values()):
        return None
    # The last candidate, the exact middle, is used only if no multiple of 0.1 km is attained by as many users.
    best = np.flatnonzero(reached[:-1] == reached.max())
    return float(candidates[best[len(best) // 2]]) if best.size else float(candidates[-1])


def _rank(attack: str, curves: dict[str, Curve], loss: float) -> Ranking:
    users = [user for user, (low, high) in _shared(curves).items() if low <= loss <= high]
    errors = {lppm: np.array([np.interp(loss, *curve[user]) for user in users]) for lppm, curve in curves.items()}
    order = sorted(errors, key=lambda lppm: -float(errors[lppm].mean()))
    return Ranking(
        attack=attack,
        quality_loss_km=loss,
        errors_km={lppm: float(errors[lppm].mean()) for lppm in order},
        leads_km=paired_leads(pd.DataFrame({lppm: errors[lppm] for lppm in order}), order[0]),
        users=len(users),
        of_users=max(len(curve) for curve in curves.values()),
    )
