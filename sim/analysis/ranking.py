"""Ranking of mechanisms by the adversary error at equal quality loss, per attack, and the sentences that report it.

A mechanism is called better only if its lead, paired by user, is significant at 95 % over at least five users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sim.analysis.curves import interpolate, user_points
from sim.analysis.equal_loss import CurveBlocks, common_losses, gains_per_km, shared_losses
from sim.analysis.moments import ColumnMoments
from sim.analysis.statistics import FEWEST_USERS, PairedLeads, is_significant
from sim.analysis.user_blocks import UserBlocks
from sim.storage.errors import RequestError

_MOST_LEVEL = 5
"""Maximum number of mechanisms named in a sentence that reports no significant difference."""


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
    return EqualLoss(UserBlocks.of(per_user)).rankings()


def remarks(per_user: pd.DataFrame) -> Iterator[str]:
    """Yield sentences on mechanisms that `rankings` cannot compare, with the reason."""
    return EqualLoss(UserBlocks.of(per_user)).remarks()


class EqualLoss:
    """Comparison of mechanisms at equal quality loss, from blocks of users; see `rankings` and `remarks`."""

    def __init__(self, users: UserBlocks) -> None:
        self._users = users
        self._attacks = [str(name) for name in dict.fromkeys(users.series["attack"])]
        self._curves = CurveBlocks(users)
        self._rankings = {attack: self._rank(attack) for attack in self._curves.attacks}

    def rankings(self) -> Iterator[Ranking]:
        """Yield a ranking for each attack."""
        yield from (ranking for ranking in self._rankings.values() if ranking is not None)

    def remarks(self) -> Iterator[str]:
        """Yield sentences on mechanisms that cannot be compared, with the reason."""
        by_attack = {attack: self._curves.lppms(attack) for attack in self._curves.attacks}
        for attack, lppms in by_attack.items():
            if len(lppms) > 1 and self._rankings[attack] is None:
                yield (
                    f"Against {attack}, mechanisms cannot be compared at equal quality loss: no loss is attained by "
                    f"half of the users with each of {', '.join(lppms)}. Widen the sweep, or see figures/tradeoff."
                )
        with_curve = {lppm for lppms in by_attack.values() for lppm in lppms}
        single = [lppm for lppm in dict.fromkeys(self._users.series["lppm"]) if lppm not in with_curve]
        if single and by_attack:
            alone = with_curve if all(len(lppms) < 2 for lppms in by_attack.values()) else set()
            yield from _per_km(self._users, {*single, *alone})
            reason = "because a single quality loss was simulated (sweep a parameter to obtain several)"
            yield f"Not compared at equal loss, {reason}: {', '.join(single)}."

    def _rank(self, attack: str) -> Ranking | None:
        candidates = common_losses(self._curves, attack)
        of_users = self._curves.n_users(attack)
        best: tuple[float, PairedLeads] | None = None
        for loss, leads in zip(candidates, self._errors_at(attack, candidates), strict=True):
            # The last candidate is used only if no multiple of 0.1 km is attained by as many users.
            if best is None or leads.users > best[1].users:
                best = loss, leads
        if best is None or 2 * best[1].users < of_users:
            return None
        loss, leads = best
        order = sorted(leads.means, key=lambda lppm: -leads.means[lppm])
        over = leads.over(order[0])
        return Ranking(
            attack=attack,
            quality_loss_km=loss,
            errors_km={lppm: leads.means[lppm] for lppm in order},
            leads_km={lppm: over[lppm] for lppm in order[1:]},
            users=leads.users,
            of_users=of_users,
        )

    def _errors_at(self, attack: str, losses_km: Sequence[float]) -> list[PairedLeads]:
        """Return the errors and leads of the users who attain each loss with every mechanism."""
        leads_at = [PairedLeads() for _ in losses_km]
        for curves in self._curves.of(attack) if losses_km else ():
            shared = shared_losses(curves)
            for loss, leads in zip(losses_km, leads_at, strict=True):
                users = [user for user, (low, high) in shared.items() if low <= loss <= high]
                errors = {lppm: [np.interp(loss, *curve[user]) for user in users] for lppm, curve in curves.items()}
                leads.add(pd.DataFrame(errors, dtype=float))
        return leads_at


def _per_km(users: UserBlocks, lppms: set[str]) -> Iterator[str]:
    """Yield a sentence per attack on the adversary error of some mechanisms per km of loss.

    It is the ratio of the means over users. Leads are paired by user, with intervals by the delta method.
    """
    gains = gains_per_km(users, lppms)
    for attack in [name for name in dict.fromkeys(users.series["attack"]) if name in gains]:
        moments = gains[attack]
        if not moments.users or len(moments.names) < 2:
            continue
        gain = moments.gains()
        order = sorted(gain, key=lambda lppm: -gain[lppm])
        halves = moments.half_widths(order[0])
        leads = {lppm: (gain[order[0]] - gain[lppm], halves[lppm]) for lppm in order[1:]}
        behind = [f"{lppm} {gain[lppm]:.2f} km ({lower(*lead, moments.users)})" for lppm, lead in leads.items()]
        best = f"{order[0]} has the highest adversary error per km of loss"
        value = f"{gain[order[0]]:.2f} km of error per km of loss"
        answer = verdict(order[0], leads, moments.users, best, value)
        yield f"Against {attack}, each at its own quality loss, {answer}; {', '.join(behind)}."


AT_LOSS = [
    *("attack", "quality_loss_km", "lppm", "reached", "users", "of_users"),
    *("error_km", "error_km_low", "error_km_high", "error_km_min", "error_km_max"),
    *("against", "difference_km", "difference_km_low", "difference_km_high", "difference_km_min", "difference_km_max"),
]


def at_loss(
    per_user: pd.DataFrame | UserBlocks, losses_km: Sequence[float], *, against: str | None = None
) -> pd.DataFrame:
    """Return the adversary error of each LPPM at given quality losses, and its difference from a reference LPPM.

    Errors are interpolated linearly on each user's trade-off curve, without extrapolation. Means and differences, LPPM
    - `against` (default: the first LPPM), are over the `users` who attain the loss with every compared LPPM; `reached`
    is the number of users who attain it with this LPPM, `of_users` the number of all users. Confidence intervals are
    95 % intervals over users (Student's t), paired by user for differences; `_min` and `_max` are the extremes over
    users, which tables show instead with fewer than five users. An LPPM with a single distinct loss for every user has
    no curve and is excluded. Columns: `AT_LOSS`; attacks and LPPMs in order of appearance.
    """
    users = UserBlocks.of(per_user) if isinstance(per_user, pd.DataFrame) else per_user
    known = list(dict.fromkeys(users.series["lppm"]))
    with_curve: set[str] = set()
    for block in users:
        points = user_points(block)
        losses = points.groupby(["lppm", "attack", "user"])["loss"].transform("nunique")
        with_curve |= set(points.loc[losses > 1, "lppm"])
    lppms = [lppm for lppm in known if lppm in with_curve]
    if not lppms:
        raise RequestError(
            "no LPPM has two quality losses to interpolate between: sweep a parameter of the LPPMs", code="no-curve"
        )
    against = lppms[0] if against is None else against
    if against not in lppms:
        available = f"available: {', '.join(lppms)}"
        if against in known:
            raise RequestError(f"LPPM {against!r} has a single quality loss; {available}", code="no-curve")
        raise RequestError(f"no LPPM {against!r} to compare with; {available}", code="unknown-lppm")
    at = np.asarray(losses_km, dtype=float)
    attacks = list(dict.fromkeys(users.series["attack"]))
    compared = {(attack, i): _AtLoss(lppms, against) for attack in attacks for i in range(len(at))}
    for block in users:
        points = user_points(block)
        for attack in attacks:
            of_attack = points[(points["attack"] == attack) & points["lppm"].isin(lppms)]
            interpolated = {
                (lppm, user): interpolate(own, at)
                for (lppm, user), own in of_attack.groupby(["lppm", "user"], sort=True)
            }
            for i in range(len(at) if interpolated else 0):
                errors = pd.Series({key: values[i] for key, values in interpolated.items()}).unstack(level=0)
                compared[attack, i].add(errors.reindex(columns=lppms))
    rows = [
        {"attack": attack, "quality_loss_km": float(at[i])} | row
        for (attack, i), own in compared.items()
        for row in own.rows()
    ]
    return pd.DataFrame(rows, columns=AT_LOSS)


class _AtLoss:
    """Errors of the LPPMs at one loss under one attack, from blocks of users."""

    def __init__(self, lppms: Sequence[str], against: str) -> None:
        self._lppms, self._against = lppms, against
        self._reached = dict.fromkeys(lppms, 0)
        self._users = self._of_users = 0
        self._errors: ColumnMoments | None = None
        self._differences: ColumnMoments | None = None

    def add(self, errors: pd.DataFrame) -> None:
        """Add the errors of users (rows) by LPPM (columns)."""
        common = errors.dropna()
        self._of_users += len(errors)
        self._users += len(common)
        for lppm in self._lppms:
            self._reached[lppm] += int(errors[lppm].count())
        own, apart = ColumnMoments.of(common), ColumnMoments.of(common.sub(common[self._against], axis=0))
        self._errors = own if self._errors is None else self._errors.merged(own)
        self._differences = apart if self._differences is None else self._differences.merged(apart)

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield a row for each LPPM."""
        if self._errors is None or self._differences is None:
            return
        for lppm in self._lppms:
            row: dict[str, object] = {"lppm": lppm, "against": self._against}
            row |= {"reached": self._reached[lppm], "users": self._users, "of_users": self._of_users}
            for name, moments in (("error_km", self._errors), ("difference_km", self._differences)):
                mean, half = moments.means[lppm], moments.halves[lppm]
                row |= {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}
                row[f"{name}_min"], row[f"{name}_max"] = moments.extremes(lppm)
            yield row
