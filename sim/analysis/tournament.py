"""Every mechanism against every attack at equal quality loss, in one table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from sim.analysis.statistics import paired_leads
from sim.analysis.summary import preferred
from sim.interfaces import FloatArray

LEAST_LPPMS, LEAST_ATTACKS = 3, 3
"""With fewer, the summary says it all."""

STANDINGS = ["rank", "lppm", "quality_loss_km", "adversary_error_km", "strongest"]
"""The columns of a table of standings before those of the attacks."""
_SAME_KM = 1e-9


def is_tournament(summary: pd.DataFrame) -> bool:
    """Tell whether a summary has enough mechanisms and attacks for a table of standings."""
    attacked = summary[summary["attack"] != ""]
    return attacked["lppm"].nunique() >= LEAST_LPPMS and attacked["attack"].nunique() >= LEAST_ATTACKS


def standings(summary: pd.DataFrame, at_km: float | None = None) -> pd.DataFrame:
    """Return a row for each mechanism, best protection first: by the error of the strongest attack on it.

    Where mechanisms were swept, say over budgets, errors are those at one quality loss, `at_km`, read off the straight
    lines between a mechanism's points; unless said, it is one that most of them reach (`common_loss_km`). A mechanism
    that does not is behind the others, without a rank, with its point nearest to that loss; so is one that some attack
    cannot be computed against, as those of the full type: weak attacks alone rank nobody. Without a sweep each stands
    at its own loss, and the loss beside the error must be looked at.

    Columns: rank (equal errors share it), lppm, quality_loss_km, adversary_error_km of the strongest attack, its name,
    and the error of each attack under its name, NaN where it cannot be computed. Figures are the expected ones where
    there are any. Takes a table of `summarize`, of mechanisms that are named apart.
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
    summary: pd.DataFrame, users: pd.DataFrame, table: pd.DataFrame
) -> tuple[dict[str, tuple[float, float]], int]:
    """Return by how much the first of the standings leads each other that has a rank, and over how many users.

    A lead is the mean of the differences of the users' own errors, each under the attack that is strongest on the
    mechanism, with half of its 95 % interval (Student's t, paired by user). Where errors are read off between the
    points of a sweep, so are those of each user, at the mean losses of the points: their mean is the error of the
    standings. Takes the tables that `standings` was made of, the users' means of `read_totals`, and its table.
    """
    first, *others = table[table["rank"].notna()].to_dict("records")
    errors = pd.DataFrame({row["lppm"]: _errors_of_users(summary, users, row) for row in (first, *others)}).dropna()
    return paired_leads(errors, first["lppm"]), len(errors)


def _errors_of_users(summary: pd.DataFrame, users: pd.DataFrame, row: dict[Any, Any]) -> pd.Series[float]:
    """Return each user's error of a mechanism under the attack that is strongest on it, at the loss of its row."""
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
    """Return a loss, in tenths of a km, that most mechanisms reach, of several the middle; None without any curve."""
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
    """Return the errors of each mechanism by attack (columns) and loss (rows, in order)."""
    known = summary[summary["attack"] != ""]
    best = known[["lppm", "point", "attack"]].assign(
        loss=preferred(known, "quality_loss_km"), error=preferred(known, "adversary_error_km")
    )
    found = {}
    for lppm, own in best.groupby("lppm", sort=False):
        losses = own.groupby("point")["loss"].first()
        errors = own.pivot(index="point", columns="attack", values="error")[list(dict.fromkeys(own["attack"]))]
        curve = errors.set_axis(pd.Index(losses.loc[errors.index].round(9), name="loss")).sort_index()
        found[str(lppm)] = curve.groupby(level="loss").mean()
    return found
