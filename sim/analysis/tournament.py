"""Tournament: standings of all mechanisms against all attacks at equal quality loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from sim.analysis.moments import ColumnMoments
from sim.analysis.replication_effect import BATCH
from sim.analysis.statistics import PairedLeads
from sim.analysis.summary import preferred
from sim.analysis.user_blocks import UserBlocks
from sim.analysis.user_curves import (
    AT_LARGEST,
    AT_SMALLEST,
    BESIDE,
    ENTROPY_BITS,
    SMOOTHED_ERROR_KM,
    AttackCurves,
    Reading,
    prior_errors,
    user_curves,
)
from sim.interfaces import FloatArray, IntArray

LEAST_LPPMS, LEAST_ATTACKS = 3, 3
"""Smallest numbers of mechanisms and attacks for a table of standings."""

_SAME_KM = 1e-9
_COUNTS = ("users", "at_largest", "at_smallest")
STANDINGS = ["rank", "lppm", "quality_loss_km", "adversary_error_km", "strongest", *_COUNTS, *BESIDE]
"""Leading columns of a table of standings; one column per attack follows."""


def is_tournament(summary: pd.DataFrame) -> bool:
    """Return whether a summary has enough mechanisms and attacks for a table of standings."""
    attacked = summary[summary["attack"] != ""]
    return attacked["lppm"].nunique() >= LEAST_LPPMS and attacked["attack"].nunique() >= LEAST_ATTACKS


def standings(summary: pd.DataFrame, users: pd.DataFrame | UserBlocks, at_km: float | None = None) -> pd.DataFrame:
    """Return one row per mechanism, best protection first: ranked by the error of the strongest attack on it.

    If mechanisms were swept, for example over budgets, errors are means over the users whose P0 is at least the quality
    loss `at_km` (default: `common_loss_km`, a loss that most mechanisms attain) under every attack. They are read off
    each user's curve, as in `ranking.at_loss`: `at_largest` and `at_smallest` of these `users` have the value at the
    end of their curve. A mechanism with which fewer than half of them attain the loss follows at the end without a
    rank, with the means over all users at its point nearest to that loss. So does a mechanism against which some attack
    cannot be computed, such as those of the full type, because the remaining weaker attacks would overstate its
    protection. Without a sweep each mechanism has its own loss and all users, and errors must be read together with the
    losses.

    Columns: `STANDINGS` with the rank (equal errors share it), the error of the strongest attack and its name, the
    error after smoothing (the lowest of the attacks that revise their estimates) and the entropy of the posterior of
    the strongest attack, NaN if not recorded; then the error of each attack under its name, NaN where it cannot be
    computed. Without a common loss `users` is missing. Expected metrics are used where recorded. `summary` is a table
    of `summarize`, `users` has blocks of `Totals.batches`, both with distinct LPPM names.
    """
    curves = _curves(summary)
    attacks = list(dict.fromkeys(attack for curve in curves.values() for attack in curve.columns))
    at_km = common_loss_km(summary, users) if at_km is None else at_km
    means = _Means(users, list(curves), attacks, at_km)
    rows = []
    for lppm, curve in curves.items():
        row = means.row(lppm)
        if at_km is not None and not _attained(row):
            nearest = int(np.abs(curve.index.to_numpy(dtype=float) - at_km).argmin())
            loss, row = float(curve.index[nearest]), _strongest(curve.iloc[nearest].to_dict())
        else:
            loss = float(curve.index[0]) if at_km is None else at_km
            row |= {"users": None} if row and at_km is None else {}
        if row:
            equal = (at_km is None or "users" in row) and len(row["by_attack"]) == len(attacks)
            rows.append(row | row["by_attack"] | {"lppm": lppm, "quality_loss_km": loss, "equal": equal})
    table = pd.DataFrame(rows, columns=["equal", *STANDINGS[1:], *attacks])
    table = table.astype(dict.fromkeys([*BESIDE, *attacks], float) | dict.fromkeys(_COUNTS, "Int64"))
    ranked = table["adversary_error_km"].where(table["equal"]).round(9).rank(ascending=False, method="min")
    table["rank"] = ranked.astype("Int64")
    table = table.sort_values(["equal", "adversary_error_km"], ascending=False, kind="stable", ignore_index=True)
    return table[[*STANDINGS, *attacks]]


def _attained(row: Mapping[str, Any]) -> bool:
    """Return whether half of the compared users attain the loss with a mechanism."""
    return bool(row) and 2 * (row["at_largest"] + row["at_smallest"]) <= row["users"]


def _strongest(by_attack: Mapping[Hashable, float]) -> dict[str, Any]:
    """Return the errors of the attacks that can be computed, and the strongest of these; empty without any."""
    known = {str(attack): float(error) for attack, error in by_attack.items() if not np.isnan(error)}
    if not known:
        return {}
    strongest = min(known, key=known.__getitem__)
    return {"by_attack": known, "strongest": strongest, "adversary_error_km": known[strongest]}


class _Means:
    """Means over the compared users of the values of each mechanism under each attack, from blocks of users."""

    def __init__(
        self, users: pd.DataFrame | UserBlocks, lppms: Sequence[str], attacks: Sequence[str], at_km: float | None
    ) -> None:
        self._attacks = attacks
        self._moments: dict[tuple[str, str], tuple[ColumnMoments, IntArray]] = {}
        for block in _blocks(users):
            for attack, read in _readings(block, lppms, attacks, at_km).items():
                for lppm, of_users in read.items():
                    if of_users:
                        self._add((lppm, attack), list(of_users.values()))

    def _add(self, key: tuple[str, str], read: Sequence[Reading]) -> None:
        values = pd.DataFrame([[one.error, *one.beside] for one in read], columns=["error", *BESIDE])
        own = ColumnMoments.of(values)
        counts: IntArray = np.array([len(read), *(sum(one.place == end for one in read) for end in _ENDS)])
        if key in self._moments:
            before, others = self._moments[key]
            own, counts = before.merged(own), others + counts
        self._moments[key] = own, counts

    def row(self, lppm: str) -> dict[str, Any]:
        """Return the values of a mechanism; empty without a compared user or an attack that can be computed."""
        own = {attack: self._moments[lppm, attack] for attack in self._attacks if (lppm, attack) in self._moments}
        if not own:
            return {}
        means = {attack: moments.means for attack, (moments, _) in own.items()}
        row = _strongest({attack: mean["error"] for attack, mean in means.items()})
        smoothed = [mean[SMOOTHED_ERROR_KM] for mean in means.values() if not np.isnan(mean[SMOOTHED_ERROR_KM])]
        row[SMOOTHED_ERROR_KM] = min(smoothed, default=np.nan)
        row[ENTROPY_BITS] = means[row["strongest"]][ENTROPY_BITS]
        return row | dict(zip(_COUNTS, own[row["strongest"]][1].tolist(), strict=True))


_ENDS = (AT_LARGEST, AT_SMALLEST)


def _blocks(users: pd.DataFrame | UserBlocks) -> Iterable[pd.DataFrame]:
    return [users] if isinstance(users, pd.DataFrame) else users


def _smallest_priors(tables: Mapping[str, pd.DataFrame]) -> dict[str, float]:
    """Return the smallest P0 of each user over the attacks, whose rows are given."""
    priors: dict[str, float] = {}
    for rows in tables.values():
        for user, error in prior_errors(rows).items():
            priors[user] = float(np.fmin(error, priors.get(user, np.nan)))
    return priors


def _readings(
    block: pd.DataFrame, lppms: Sequence[str], attacks: Sequence[str], at_km: float | None
) -> dict[str, dict[str, dict[str, Reading]]]:
    """Return the values at a loss, or at each mechanism's own loss, by attack, mechanism and compared user."""
    tables = {attack: block[block["attack"] == attack] for attack in attacks}
    priors = _smallest_priors(tables)
    read: dict[str, dict[str, dict[str, Reading]]] = {}
    for attack, rows in tables.items():
        curves = AttackCurves(user_curves(rows, lppms), priors)
        read[attack] = {
            lppm: {
                user: curve.at(curve.losses.mean() if at_km is None else at_km)
                for user, curve in of_user.items()
                if at_km is None or curves.is_compared(user, at_km)
            }
            for lppm, of_user in curves.curves.items()
        }
    return read


def leads(
    users: pd.DataFrame | UserBlocks, table: pd.DataFrame, *, swept: bool = True
) -> tuple[dict[str, tuple[float, float]], int]:
    """Return the lead of the first mechanism over each other ranked one, and the number of users.

    A lead is the mean over the users of the standings of the difference of their errors, each under the strongest
    attack on the mechanism, with the half-width of its 95 % confidence interval over users and replications, paired by
    user. `table` is the result of `standings`; `users` has blocks of `Totals.batches`. If mechanisms were not `swept`,
    each has its own loss.
    """
    ranked = table[table["rank"].notna()].to_dict("records")
    attacks = list(table.columns.drop(STANDINGS))
    at_km = ranked[0]["quality_loss_km"] if swept else None
    first, *_ = lppms = [row["lppm"] for row in ranked]
    paired = PairedLeads()
    for block in _blocks(users):
        read = _readings(block, lppms, attacks, at_km)
        own = {row["lppm"]: read[row["strongest"]][row["lppm"]] for row in ranked}
        common = sorted(set.intersection(*map(set, own.values())))
        if common:
            errors = {lppm: [of_user[user].error for user in common] for lppm, of_user in own.items()}
            apart = {lppm: np.stack([of_user[user].deviations for user in common]) for lppm, of_user in own.items()}
            paired.add(pd.DataFrame(errors, common), [first], deviations=_padded(apart))
    return paired.over(first) if paired.users else {}, paired.users


def _padded(deviations: Mapping[str, FloatArray]) -> pd.DataFrame:
    """Return the deviations of all batches, shape (users, n_batches), in columns; missing batches have none."""
    most = max(own.shape[1] for own in deviations.values())
    users = len(next(iter(deviations.values())))
    keys = pd.MultiIndex.from_product([range(users), range(most)], names=["user", BATCH])
    columns = {lppm: np.pad(own, [(0, 0), (0, most - own.shape[1])]).ravel() for lppm, own in deviations.items()}
    return pd.DataFrame(columns, keys)


def common_loss_km(summary: pd.DataFrame, users: pd.DataFrame | UserBlocks | None = None) -> float | None:
    """Return the multiple of 0.1 km that most mechanisms attain, of several the middle one; None without a curve.

    With `users`, only losses that do not exceed P0 of half of the users are considered, if there are any; otherwise the
    smallest loss.
    """
    ranges = [(curve.index[0], curve.index[-1]) for curve in _curves(summary).values() if len(curve) > 1]
    if not ranges:
        return None
    lows, highs = np.array(ranges).T
    tenths = np.round(np.arange(np.ceil(lows.min() * 10), np.floor(highs.max() * 10) + 1) / 10, 1)
    if not tenths.size:
        return float((lows.max() + highs.min()) / 2)
    reached = ((lows[:, None] <= tenths) & (tenths <= highs[:, None])).sum(axis=0)
    best = tenths[reached == reached.max()]
    if users is not None:
        attacks = list(dict.fromkeys(summary.loc[summary["attack"] != "", "attack"]))
        best = best[best <= max(_median_prior_km(users, attacks), best[0])]
    return float(best[len(best) // 2])


def _median_prior_km(users: pd.DataFrame | UserBlocks, attacks: Sequence[str]) -> float:
    """Return the largest multiple of 0.1 km that P0 of half of the users attains; infinite without any P0."""
    counts = Counter[float]()
    for block in _blocks(users):
        known = _smallest_priors({attack: block[block["attack"] == attack] for attack in attacks})
        counts.update(np.inf if np.isnan(error) else float(np.floor(error * 10 + _SAME_KM)) for error in known.values())
    total, above = sum(counts.values()), 0
    for tenth in sorted(counts, reverse=True):
        above += counts[tenth]
        if 2 * above >= total:
            return float(np.round(tenth / 10, 1))
    return np.inf


def _curves(summary: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the errors of each mechanism by attack (columns) and loss (rows, ascending)."""
    known = summary[summary["attack"] != ""]
    best = known[["lppm", "point", "attack"]].assign(
        loss=preferred(known, "quality_loss_km"), error=preferred(known, "adversary_error_km")
    )
    curves = {}
    for lppm, own in best.groupby("lppm", sort=False):
        losses = own.groupby("point")["loss"].first()
        errors = own.pivot(index="point", columns="attack", values="error")[list(dict.fromkeys(own["attack"]))]
        curve = errors.set_axis(pd.Index(losses.loc[errors.index].round(9), name="loss")).sort_index()
        curves[str(lppm)] = curve.groupby(level="loss").mean()
    return curves
