"""Ranking of mechanisms by the adversary error at equal quality loss, per attack, and the sentences that report it.

A mechanism is called better only if its lead, paired by user, is significant at 95 % over at least five users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from sim.analysis.equal_loss import CurveBlocks, common_losses, gains_per_km, lossy
from sim.analysis.moments import ColumnMoments
from sim.analysis.statistics import FEWEST_USERS, PairedLeads, is_significant
from sim.analysis.user_blocks import UserBlocks
from sim.analysis.user_curves import AT_LARGEST, AT_SMALLEST, BESIDE, ON_CURVE, Readings
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
    """Number of compared users: those whose P0 is at least the loss."""
    of_users: int
    """Number of all users."""
    off_curve: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Numbers of compared users whose value is that at the largest and at the smallest loss of their curve, for
    mechanisms with such users."""

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
        value = f"adversary error {self._error(first)}"
        answer = verdict(first, self.leads_km, self.users, f"{first} protects best", value)
        behind = [f"{name} {self._error(name)} ({lower(*self.leads_km[name], self.users)})" for name in others]
        ends = ", ".join(f"{name} {end_counts(*counts)}" for name, counts in self.off_curve.items())
        note = f" {MARK} {OFF_CURVE}: {ends}." if ends else ""
        return f"{start}{answer}; {', '.join(behind)}.{note}"

    def _error(self, name: str) -> str:
        return f"{self.errors_km[name]:.2f} km{MARK if name in self.off_curve else ''}"


MARK = "*"
"""Mark of a mean that contains values at the end of a user's curve."""
OFF_CURVE = "Users outside a mechanism's curve have the value at its end"


def end_counts(largest: int, smallest: int) -> str:
    """Return the numbers of users whose value is that at the end of their curve.

    >>> end_counts(3, 0), end_counts(3, 1), end_counts(0, 0)
    ('3 at the largest loss', '3 at the largest loss and 1 at the smallest', '')
    """
    parts = [f"{largest} at the largest loss"] * (largest > 0)
    parts += [f"{smallest} at the smallest" + ("" if largest else " loss")] * (smallest > 0)
    return " and ".join(parts)


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

    Compared are the users whose P0 is at least the loss. A mechanism with a single distinct loss for every user has no
    curve and is excluded. If fewer than half of the users share a loss, the attack has none; `remarks` reports it.
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
                    f"half of the users with each of {', '.join(lppms)}. {self._advice(attack)}"
                )
        with_curve = {lppm for lppms in by_attack.values() for lppm in lppms}
        single = [lppm for lppm in dict.fromkeys(self._users.series["lppm"]) if lppm not in with_curve]
        if single and by_attack:
            alone = with_curve if all(len(lppms) < 2 for lppms in by_attack.values()) else set()
            yield from _per_km(self._users, {*single, *alone})
            reason = "because a single quality loss was simulated (sweep a parameter to obtain several)"
            yield f"Not compared at equal loss, {reason}: {', '.join(single)}."

    def _advice(self, attack: str) -> str:
        """Return the advice on mechanisms without a common loss."""
        names = lossy(self._curves, attack)
        if not names or len(self._curves.lppms(attack)) - len(names) < 2:
            return "Widen the sweep, or see figures/tradeoff."
        return (
            f"Leave out {', '.join(names)}: at least half of the users lose more than P0, the error without any "
            "report, at every sweep point."
        )

    def _rank(self, attack: str) -> Ranking | None:
        candidates = common_losses(self._curves, attack)
        of_users = self._curves.n_users(attack)
        best: tuple[float, _AtLoss] | None = None
        for loss, compared in zip(candidates, _compared(self._curves, attack, candidates), strict=True):
            # The last candidate is used only if no multiple of 0.1 km is attained by as many users.
            if best is None or compared.attained > best[1].attained:
                best = loss, compared
        if best is None or 2 * best[1].attained < of_users:
            return None
        loss, compared = best
        means = compared.leads.means
        order = sorted(means, key=lambda lppm: -means[lppm])
        over = compared.leads.over(order[0])
        return Ranking(
            attack=attack,
            quality_loss_km=loss,
            errors_km={lppm: means[lppm] for lppm in order},
            leads_km={lppm: over[lppm] for lppm in order[1:]},
            users=compared.users,
            of_users=of_users,
            off_curve={lppm: compared.off_curve(lppm) for lppm in order if any(compared.off_curve(lppm))},
        )


def _per_km(users: UserBlocks, lppms: set[str]) -> Iterator[str]:
    """Yield a sentence per attack on the adversary error of some mechanisms per km of loss.

    It is the ratio of the means over users. Leads are paired by user, with intervals over users and replications by
    the delta method.
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
    *("attack", "quality_loss_km", "lppm", "reached", "at_largest", "at_smallest", "users", "of_users"),
    *("error_km", "error_km_low", "error_km_high", "error_km_min", "error_km_max", *BESIDE),
    *("against", "difference_km", "difference_km_low", "difference_km_high", "difference_km_min", "difference_km_max"),
    "p_value",
]


def at_loss(
    per_user: pd.DataFrame | UserBlocks, losses_km: Sequence[float], *, against: str | None = None
) -> pd.DataFrame:
    """Return the adversary error of each LPPM at given quality losses, and its difference from a reference LPPM.

    Compared are the `users` whose P0, the error of the best guess without any report, is at least the loss, of
    `of_users`; they do not depend on the LPPM. Errors are interpolated linearly on each user's trade-off curve. A user
    whose largest loss is below counts with the error there (`at_largest`), one whose smallest loss is above with the
    error there (`at_smallest`); `reached` is the number of the others. Differences are LPPM - `against` (default: the
    first LPPM). Confidence intervals are 95 % intervals over users and replications, paired by user for differences;
    `p_value` is that of a two-sided test of the difference, NaN with fewer than five users, not adjusted;
    `_min` and `_max` are the extremes over users, which tables show instead with fewer than five users. The metrics
    `BESIDE` are means read off in the same way; NaN if not recorded. An LPPM with a single distinct loss for every user
    has no curve and is excluded. Columns: `AT_LOSS`; attacks and LPPMs in order of appearance.
    """
    users = UserBlocks.of(per_user) if isinstance(per_user, pd.DataFrame) else per_user
    known = list(dict.fromkeys(users.series["lppm"]))
    curves = CurveBlocks(users)
    with_curve = {lppm for attack in curves.attacks for lppm in curves.lppms(attack)}
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
    rows = [
        {"attack": attack, "quality_loss_km": loss} | compared.row(lppm, against)
        for attack in curves.attacks
        for loss, compared in zip(losses_km, _compared(curves, attack, losses_km, against), strict=True)
        for lppm in lppms
        if compared.of_users
    ]
    return pd.DataFrame(rows, columns=AT_LOSS)


def _compared(
    curves: CurveBlocks, attack: str, losses_km: Sequence[float], against: str | None = None
) -> list[_AtLoss]:
    """Return the values at each loss; leads are those over `against` (default: over every mechanism)."""
    firsts = None if against is None else [against] if against in curves.lppms(attack) else []
    compared = [_AtLoss(firsts) for _ in losses_km]
    for block in curves.of(attack) if losses_km else ():
        for loss, own in zip(losses_km, compared, strict=True):
            own.add(block.read(loss), of_users=len(block.users))
    return compared


class _AtLoss:
    """Values of the mechanisms at one loss under one attack, from blocks of users."""

    def __init__(self, firsts: Sequence[str] | None) -> None:
        self._firsts = firsts
        self._places: pd.DataFrame | None = None
        self._errors: ColumnMoments | None = None
        self._beside: dict[str, ColumnMoments] = {}
        self.leads = PairedLeads()
        """Leads over the mechanisms that the others are compared with."""
        self.users = self.of_users = self.attained = 0
        """Numbers of compared users, of all users, and of those who attain the loss with every mechanism."""

    def add(self, read: Readings, *, of_users: int) -> None:
        """Add the values of users."""
        self.of_users += of_users
        self.users += len(read.errors)
        self.attained += int((read.places == ON_CURVE).all(axis=1).sum())
        counts = pd.DataFrame({place: (read.places == place).sum() for place in (ON_CURVE, AT_LARGEST, AT_SMALLEST)})
        self._places = counts if self._places is None else self._places + counts
        own = ColumnMoments.of(read.errors, read.deviations)
        self._errors = own if self._errors is None else self._errors.merged(own)
        for name in BESIDE:
            beside = ColumnMoments.of(getattr(read, name))
            self._beside[name] = self._beside[name].merged(beside) if name in self._beside else beside
        self.leads.add(read.errors, self._firsts, deviations=read.deviations)

    def off_curve(self, lppm: str) -> tuple[int, int]:
        """Return the numbers of users at the largest and at the smallest loss of a mechanism."""
        assert self._places is not None
        return int(self._places[AT_LARGEST][lppm]), int(self._places[AT_SMALLEST][lppm])

    def row(self, lppm: str, against: str) -> dict[str, object]:
        """Return the row of a mechanism in the table of `at_loss`; without metrics if it has no curve."""
        row: dict[str, object] = {"lppm": lppm, "against": against, "users": self.users, "of_users": self.of_users}
        if self._errors is None or self._places is None or lppm not in self._errors.means:
            return row | {"reached": 0, "at_largest": 0, "at_smallest": 0}
        largest, smallest = self.off_curve(lppm)
        row |= {"reached": self.users - largest - smallest, "at_largest": largest, "at_smallest": smallest}
        row |= _with_ends("error_km", self._errors, lppm)
        row |= {name: moments.means[lppm] for name, moments in self._beside.items()}
        if lppm == against:
            same = 0.0 if self.users else np.nan
            half = 0.0 if self.users > 1 else np.nan
            ends = {"_low": -half, "_high": half, "_min": same, "_max": same}
            return row | {"difference_km": same} | {f"difference_km{end}": value for end, value in ends.items()}
        behind = self.leads.moments(against)
        if behind is None:
            return row
        tested = {"p_value": behind.p_values[lppm]} if self.users >= FEWEST_USERS else {}
        return row | _with_ends("difference_km", behind, lppm, sign=-1) | tested


def _with_ends(name: str, moments: ColumnMoments, lppm: str, *, sign: int = 1) -> dict[str, float]:
    """Return a mean as `name`, the limits of its interval, and its extremes over users."""
    mean, half = sign * moments.means[lppm], moments.halves[lppm]
    low, high = sorted(sign * end for end in moments.extremes(lppm))
    return {
        name: mean,
        f"{name}_low": mean - half,
        f"{name}_high": mean + half,
        f"{name}_min": low,
        f"{name}_max": high,
    }
