"""Tournament: standings of all mechanisms against all attacks at equal quality loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from sim.analysis.statistics import PairedLeads
from sim.analysis.summary import preferred
from sim.analysis.user_blocks import UserBlocks
from sim.interfaces import FloatArray

LEAST_LPPMS, LEAST_ATTACKS = 3, 3
"""Smallest numbers of mechanisms and attacks for a table of standings."""

STANDINGS = ["rank", "lppm", "quality_loss_km", "adversary_error_km", "strongest"]
"""Leading columns of a table of standings; one column per attack follows."""
_SAME_KM = 1e-9


def is_tournament(summary: pd.DataFrame) -> bool:
    """Return whether a summary has enough mechanisms and attacks for a table of standings."""
    attacked = summary[summary["attack"] != ""]
    return attacked["lppm"].nunique() >= LEAST_LPPMS and attacked["attack"].nunique() >= LEAST_ATTACKS


def standings(summary: pd.DataFrame, at_km: float | None = None) -> pd.DataFrame:
    """Return one row per mechanism, best protection first: ranked by the error of the strongest attack on it.

    If mechanisms were swept, for example over budgets, errors are interpolated linearly between a mechanism's points at
    the quality loss `at_km` (default: `common_loss_km`, a loss that most of them attain). A mechanism that does not
    attain this loss follows at the end without a rank, with its point nearest to that loss. So does a mechanism against
    which some attack cannot be computed, such as those of the full type, because the remaining weaker attacks would
    overstate its protection. Without a sweep each mechanism has its own loss, and errors must be read together with
    the losses.

    Columns: rank (equal errors share it), lppm, quality_loss_km, adversary_error_km of the strongest attack, strongest
    (name of that attack), and the error of each attack under its name, NaN where it cannot be computed. Expected
    metrics are used where recorded. `summary` is a table of `summarize` with distinct LPPM names.
    """
    curves = _curves(summary)
    attacks = list(dict.fromkeys(attack for curve in curves.values() for attack in curve.columns))
    at_km = common_loss_km(summary) if at_km is None else at_km
    rows = []
    for lppm, curve in curves.items():
        losses = curve.index.to_numpy(dtype=float)
        if at_km is not None and losses[0] - _SAME_KM <= at_km <= losses[-1] + _SAME_KM:
            loss, errors = at_km, [float(np.interp(at_km, losses, curve[attack])) for attack in curve]
        else:
            nearest = 0 if at_km is None else int(np.abs(losses - at_km).argmin())
            loss, errors = float(losses[nearest]), curve.iloc[nearest].tolist()
        by_attack = dict(zip(curve.columns, errors, strict=True))
        known = {attack: error for attack, error in by_attack.items() if not np.isnan(error)}
        if not known:
            continue
        strongest = min(known, key=known.__getitem__)
        equal = len(known) == len(attacks) and (at_km is None or abs(loss - at_km) <= _SAME_KM)
        rows.append((equal, lppm, loss, by_attack[strongest], strongest, *(by_attack.get(name) for name in attacks)))
    table = pd.DataFrame(rows, columns=["equal", *STANDINGS[1:], *attacks])
    table = table.astype(dict.fromkeys(attacks, float))
    ranked = table["adversary_error_km"].where(table["equal"]).round(9).rank(ascending=False, method="min")
    table["rank"] = ranked.astype("Int64")
    table = table.sort_values(["equal", "adversary_error_km"], ascending=False, kind="stable", ignore_index=True)
    return table[[*STANDINGS, *attacks]]


def leads(
    summary: pd.DataFrame, users: pd.DataFrame | UserBlocks, table: pd.DataFrame
) -> tuple[dict[str, tuple[float, float]], int]:
    """Return the lead of the first mechanism over each other ranked one, and the number of users.

    A lead is the mean over users of the difference of their errors, each under the strongest attack on the mechanism,
    with the half-width of its 95 % confidence interval (Student's t, paired by user). If errors are interpolated
    between sweep points, each user's errors are interpolated at the mean losses of the points, so that their mean is
    the error in the standings. `table` is the result of `standings(summary)`; `users` has the means of `Totals.users`.
    """
    first, *others = table[table["rank"].notna()].to_dict("records")
    paired = PairedLeads()
    for block in [users] if isinstance(users, pd.DataFrame) else users:
        errors = pd.DataFrame({row["lppm"]: _errors_of_users(summary, block, row) for row in (first, *others)})
        paired.add(errors.dropna(), [first["lppm"]])
    return paired.over(first["lppm"]) if paired.users else {}, paired.users


def _errors_of_users(summary: pd.DataFrame, users: pd.DataFrame, row: dict[Any, Any]) -> pd.Series[float]:
    """Return each user's error under the strongest attack on a mechanism, at the loss of its row in the standings."""
    own, of_users = (
        frame[(frame["lppm"] == row["lppm"]) & (frame["attack"] == row["strongest"])] for frame in (summary, users)
    )
    losses = preferred(own, "quality_loss_km").round(9).set_axis(own["point"])
    errors = of_users.assign(error=preferred(of_users, "adversary_error_km"))
    by_point = errors.pivot(index="point", columns="user", values="error")
    curve = by_point.groupby(losses.loc[by_point.index].to_numpy()).mean()
    at, values = curve.index.to_numpy(dtype=float), curve.to_numpy(dtype=float)
    read: FloatArray = np.array([np.interp(row["quality_loss_km"], at, column) for column in values.T])
    return pd.Series(read, index=curve.columns)


def common_loss_km(summary: pd.DataFrame) -> float | None:
    """Return the multiple of 0.1 km that most mechanisms attain, of several the middle one; None without a curve."""
    ranges = [(curve.index[0], curve.index[-1]) for curve in _curves(summary).values() if len(curve) > 1]
    if not ranges:
        return None
    lows, highs = np.array(ranges).T
    tenths = np.round(np.arange(np.ceil(lows.min() * 10), np.floor(highs.max() * 10) + 1) / 10, 1)
    if not tenths.size:
        return float((lows.max() + highs.min()) / 2)
    reached = ((lows[:, None] <= tenths) & (tenths <= highs[:, None])).sum(axis=0)
    best = np.flatnonzero(reached == reached.max())
    return float(tenths[best[len(best) // 2]])


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
