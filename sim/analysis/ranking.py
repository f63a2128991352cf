"""The answer in a sentence: which mechanism protects best against an attack at equal quality loss.

A mechanism is called better only where its lead, paired by user, is significant at 95 % over five users or more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sim.analysis.curves import curve_of_user, read_off, user_points
from sim.analysis.statistics import FEWEST_USERS, half_width, is_significant, mean_interval, paired_leads
from sim.interfaces import FloatArray
from sim.storage.errors import RequestError

_MOST_LEVEL = 5
"""Of more mechanisms without a significant difference these are named."""

Curve = dict[str, tuple[FloatArray, FloatArray]]
"""For each user the losses of one mechanism, sorted, and the adversary's errors at them."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Mechanisms in the order of the adversary's error at one quality loss, best protection first."""

    attack: str
    quality_loss_km: float
    errors_km: dict[str, float]
    leads_km: dict[str, tuple[float, float]]
    """Of each mechanism but the first, by how much the first is ahead, paired by user, and half of its 95 % interval,
    which is NaN for a single user."""
    users: int
    of_users: int
    """Users who reach the loss with every mechanism, and users in all."""

    def is_sure(self, name: str) -> bool:
        """Tell whether the first is significantly ahead of this one, with enough users to tell."""
        return self.users >= FEWEST_USERS and is_significant(*self.leads_km[name])

    def __str__(self) -> str:
        first, *others = self.errors_km
        # A loss that is no tenth of a kilometre is written exactly, or it would read 0.0.
        tenths = abs(self.quality_loss_km - round(self.quality_loss_km, 1)) < 1e-9
        loss = f"{self.quality_loss_km:.1f}" if tenths else f"{self.quality_loss_km:.2g}"
        some = "" if self.users == self.of_users else f" ({self.users} of {self.of_users} users)"
        start = f"Against {self.attack}, at {loss} km of quality loss{some}, "
        figure = f"P_AE {self.errors_km[first]:.2f} km"
        answer = verdict(first, self.leads_km, self.users, f"{first} protects best", figure)
        behind = [
            f"{name} {self.errors_km[name]:.2f} km ({lower(*self.leads_km[name], self.users)})" for name in others
        ]
        return f"{start}{answer}; {', '.join(behind)}."


Leads = Mapping[str, tuple[float, float]]
"""Of each one behind, nearest first, by how much the first leads it, and half of the 95 % interval of that."""


def verdict(first: str, leads: Leads, users: int, best: str, figure: str) -> str:
    """Say who is ahead, and the first one's figure: `best` where its lead is significant over all others.

    It "is ahead" where it leads the runner-up significantly, but not all of those further behind. Else there is no
    significant difference to those named; with fewer than five users none is tested.
    """
    if users < FEWEST_USERS:
        few = f"{users} users are" if users != 1 else "1 user is"
        return f"{few} too few to tell which mechanism protects better: {first} has {figure}"
    level = [name for name, lead in leads.items() if not is_significant(*lead)]
    if not level:
        return f"{best}: {figure}"
    if next(iter(leads)) not in level:
        return f"{first} is ahead: {figure}"
    *some, last = [first, *level]
    if len(some) > _MOST_LEVEL:
        some, last = some[:_MOST_LEVEL], f"{len(level) + 1 - _MOST_LEVEL} others"
    return f"there is no significant difference between {', '.join(some)} and {last}: {first} has {figure}"


def lower(lead: float, half: float, users: int) -> str:
    """Say by how much something is behind, and whether that is significant, where there are users enough."""
    if users < FEWEST_USERS:
        return f"{lead:.2f} lower"
    return f"{lead:.2f} ± {half:.2f} lower" + ("" if is_significant(lead, half) else ", not significant")


def rankings(per_user: pd.DataFrame) -> Iterator[Ranking]:
    """Yield a ranking for each attack, at a loss that all mechanisms reach for as many users as can be.

    A mechanism that has a single loss for some user, at one point or at all of them, has no curve and is left out.
    Where less than half of the users share a loss there is no ranking; `remarks` says so.
    """
    for attack, curves in _curves(per_user).items():
        loss = _common_loss(curves)
        if loss is not None:
            yield _rank(attack, curves, loss)


def remarks(per_user: pd.DataFrame) -> Iterator[str]:
    """Yield what `rankings` cannot compare, and why."""
    by_attack = _curves(per_user)
    for attack, curves in by_attack.items():
        if len(curves) > 1 and _common_loss(curves) is None:
            yield (
                f"Against {attack} nothing is compared at equal quality loss: {', '.join(curves)} share none "
                "for half of the users. Sweep wider, or see figures/tradeoff."
            )
    with_curve = {lppm for curves in by_attack.values() for lppm in curves}
    single = [lppm for lppm in dict.fromkeys(per_user["lppm"]) if lppm not in with_curve]
    if single and by_attack:
        alone = with_curve if all(len(curves) < 2 for curves in by_attack.values()) else set()
        yield from _per_km(user_points(per_user[per_user["lppm"].isin({*single, *alone})]))
        want = "for want of a second quality loss, which a sweep gives"
        yield f"Not compared at equal loss, {want}: {', '.join(single)}."


def _per_km(points: pd.DataFrame) -> Iterator[str]:
    """Yield how much error each mechanism buys for a kilometre of its losses; takes a table of `user_points`.

    That is the ratio of the means over users; leads are paired by user, with intervals by the delta method.
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
        best, figure = f"a km of it buys most error with {order[0]}", f"{gain[order[0]]:.2f} km of error per km"
        answer = verdict(order[0], leads, len(lossy), best, figure)
        yield f"Against {attack}, each at its own quality loss, {answer}; {', '.join(behind)}."


AT_LOSS = [
    *("attack", "quality_loss_km", "lppm", "reached", "users", "of_users"),
    *("error_km", "error_km_low", "error_km_high", "error_km_min", "error_km_max"),
    *("against", "difference_km", "difference_km_low", "difference_km_high", "difference_km_min", "difference_km_max"),
]


def at_loss(per_user: pd.DataFrame, losses_km: Sequence[float], *, against: str | None = None) -> pd.DataFrame:
    """Return the adversary's error of each LPPM at some quality losses, and by how much it differs from one of them.

    Errors are read off each user's own trade-off curve, straight between her points and never beyond them. Means and
    differences, LPPM - `against` (unless said the first one), are over the `users` who reach the loss with every LPPM
    that is compared; `reached` is how many do with this one, `of_users` how many there are. Intervals are 95 % of
    Student's t over users, that of the difference paired by user; `_min` and `_max` are the extremes of the users' own
    values, which are shown instead below five users. An LPPM that has a single loss for every user has
    no curve and is left out. Columns: AT_LOSS; attacks and LPPMs in the order in which they appear.
    """
    points = user_points(per_user)
    losses = points.groupby(["lppm", "attack", "user"])["loss"].transform("nunique")
    with_curve = set(points.loc[losses > 1, "lppm"])
    lppms = [lppm for lppm in dict.fromkeys(per_user["lppm"]) if lppm in with_curve]
    if not lppms:
        raise RequestError("no LPPM has two quality losses to read an error between: sweep a parameter of theirs")
    against = lppms[0] if against is None else against
    if against not in lppms:
        why = "has a single quality loss" if against in set(per_user["lppm"]) else "is none of this run"
        raise RequestError(f"{against!r} {why}: to compare with are {', '.join(lppms)}")
    at = np.asarray(losses_km, dtype=float)
    rows: list[dict[str, object]] = []
    for attack in dict.fromkeys(per_user["attack"]):
        of_attack = points[(points["attack"] == attack) & points["lppm"].isin(lppms)]
        read = {(lppm, user): read_off(own, at) for (lppm, user), own in of_attack.groupby(["lppm", "user"], sort=True)}
        for i, loss in enumerate(at.tolist()):
            errors = pd.Series({key: values[i] for key, values in read.items()}).unstack(level=0)
            rows += _compared(errors.reindex(columns=lppms), against, attack, loss) if len(errors) else []
    return pd.DataFrame(rows, columns=AT_LOSS)


def _compared(errors: pd.DataFrame, against: str, attack: str, loss: float) -> Iterator[dict[str, object]]:
    """Yield a row for each LPPM; takes the errors of users (rows) by LPPM (columns) at one loss."""
    common = errors.dropna()
    for lppm in errors:
        row: dict[str, object] = {"attack": attack, "quality_loss_km": loss, "lppm": lppm, "against": against}
        row |= {"reached": int(errors[lppm].count()), "users": len(common), "of_users": len(errors)}
        figures = {"error_km": common[lppm], "difference_km": common[lppm] - common[against]}
        for name, values in figures.items():
            row |= mean_interval(values, name)
            row |= {f"{name}_min": values.min(), f"{name}_max": values.max()}
        yield row


def _curves(per_user: pd.DataFrame) -> dict[str, dict[str, Curve]]:
    """Return the curves of each mechanism that has some, by attack."""
    found: dict[str, dict[str, Curve]] = {}
    points = user_points(per_user)
    for attack in [name for name in dict.fromkeys(per_user["attack"]) if name in set(points["attack"])]:
        rows = points[points["attack"] == attack]
        found[str(attack)] = {
            str(lppm): {str(user): curve_of_user(own) for user, own in of_lppm.groupby("user", sort=True)}
            for lppm, of_lppm in rows.groupby("lppm", sort=True)
            if of_lppm.groupby("user")["loss"].nunique().min() > 1
        }
    return found


def _shared(curves: dict[str, Curve]) -> dict[str, tuple[float, float]]:
    """Return the losses that a user reaches with every mechanism, as an interval, for users who have any."""
    users = set.intersection(*(set(curve) for curve in curves.values())) if curves else set()
    shared = {}
    for user in sorted(users):
        low = max(float(curve[user][0][0]) for curve in curves.values())
        high = min(float(curve[user][0][-1]) for curve in curves.values())
        if low < high:
            shared[user] = (low, high)
    return shared


def _common_loss(curves: dict[str, Curve]) -> float | None:
    """Return a loss, to a tenth of a kilometre, that most users reach with every mechanism; of several the middle."""
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
    # The exact middle, the last candidate, counts only where no tenth does as well.
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
