"""Columns and captions of the tables at equal quality loss: `summarize --at` and the standings of a tournament."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from sim.analysis.ranking import MARK, OFF_CURVE, end_counts
from sim.analysis.statistics import SIGNIFICANCE, holm
from sim.analysis.tables import (
    Cell,
    Column,
    Row,
    is_missing,
    lppm_column,
    metric_cell,
    metric_column,
    table_spread_note,
)
from sim.analysis.user_curves import ENTROPY_BITS, SMOOTHED_ERROR_KM
from sim.storage.errors import RequestError

_BESIDE = {
    SMOOTHED_ERROR_KM: ("smoothed", 3, "km", "adversary error of all estimates after the last report"),
    ENTROPY_BITS: ("entropy", 2, "bits", "entropy of the adversary's posterior"),
}


SIGNIFICANT = "†"
"""Mark of a difference that is significant after the correction for the number of tests."""
EFFICIENCY, P_HOLM, CEILING = "efficiency", "p_holm", "ceiling"


def completed(table: pd.DataFrame, ceiling: str | None) -> pd.DataFrame:
    """Return a table of `ranking.at_loss` with adjusted p-values and, with a ceiling, the efficiency.

    The family of tests (`statistics.holm`) has all differences of the table. The efficiency is the mean error divided
    by that of the LPPM `ceiling` under the same circumstances, attack and loss; NaN if that error is zero or unknown.
    """
    table = table.assign(**{P_HOLM: holm(table["p_value"].to_numpy(float))})
    if ceiling is None:
        return table
    if ceiling not in set(table["lppm"]):
        names = ", ".join(dict.fromkeys(table["lppm"]))
        raise RequestError(f"no LPPM {ceiling!r} for the ceiling; available: {names}", code="unknown-lppm")
    keys = ["circumstances", "attack", "quality_loss_km"]
    errors = table.loc[table["lppm"] == ceiling, [*keys, "error_km"]].rename(columns={"error_km": CEILING})
    largest = table[keys].merge(errors, on=keys, how="left", validate="many_to_one")[CEILING].to_numpy(float)
    efficiency = table["error_km"].to_numpy(float) / np.where(largest > 0, largest, np.nan)
    return table.assign(efficiency=efficiency, ceiling=ceiling)


def is_significant_row(row: Row) -> bool:
    """Return whether the difference of a row is significant after the correction for the number of tests."""
    value: Any = row.get(P_HOLM)
    return not is_missing(value) and value < SIGNIFICANCE


def significance_note(shown: pd.DataFrame) -> str:
    """Return a clause on the mark of significant differences; empty if nothing is tested."""
    tests = int(shown[P_HOLM].notna().sum()) if P_HOLM in shown else 0
    if not tests:
        return ""
    of = f"over the {tests} differences of this table (Holm)" if tests > 1 else "(a single test)"
    return f"; {SIGNIFICANT} significant at 5 % {of}"


def beside_columns(shown: pd.DataFrame, digits: int = 3) -> list[Column]:
    """Return the columns of the metrics beside the adversary error that were recorded."""
    recorded = [name for name in _BESIDE if name in shown and shown[name].notna().any()]
    described = {name: _BESIDE[name] for name in recorded}
    return [
        metric_column(heading, name, min(digits, own), unit=unit, meaning=meaning)
        for name, (heading, own, unit, meaning) in described.items()
    ]


def beside_note(shown: pd.DataFrame) -> str:
    """Return a clause on the metrics beside the adversary error that were not recorded; empty if all were."""
    hints = {
        SMOOTHED_ERROR_KM: "error after smoothing (needs an attack with hindsight, such as smoothing; for a mechanism "
        "with a secret one with ignores_memory)",
        ENTROPY_BITS: "entropy (needs record.posterior)",
    }
    missing = [hint for name, hint in hints.items() if name not in shown or shown[name].isna().all()]
    return f"; not recorded: {', '.join(missing)}" if missing else ""


def off_curve_note(shown: pd.DataFrame) -> str:
    """Return a clause on the mark of values at the ends of curves; empty if there are none."""
    return (
        f"; {MARK} {OFF_CURVE[0].lower()}{OFF_CURVE[1:]}"
        if shown[["at_largest", "at_smallest"]].fillna(0).to_numpy().any()
        else ""
    )


def is_off_curve(row: Row) -> bool:
    """Return whether the mean of a mechanism contains values at the end of a curve."""
    counts: list[Any] = [row["at_largest"], row["at_smallest"]]
    return any(not is_missing(count) and count > 0 for count in counts)


def _marked(cell: Cell, row: Row) -> Cell:
    return replace(cell, text=f"{cell.text}{MARK}") if cell.text and is_off_curve(row) else cell


def strongest_error_column() -> Column:
    """Return the column of the error of the strongest attack, marked if some users are outside their curve."""
    return Column("P_AE", lambda row: _marked(metric_cell(row, "adversary_error_km", 3), row), "km", "adversary error")


def at_loss_columns(against: str, shown: pd.DataFrame) -> list[Column]:
    """Return the columns of the error at a quality loss and of its difference from the LPPM `against`."""

    def difference(row: Row) -> Cell:
        if row["lppm"] == against:
            return Cell(sort_key="")
        cell = metric_cell(row, "difference_km", 3)
        return replace(cell, text=f"{cell.text}{SIGNIFICANT}") if is_significant_row(row) else cell

    def off_curve(row: Row) -> Cell:
        number = row["at_largest"] + row["at_smallest"]
        return Cell(end_counts(row["at_largest"], row["at_smallest"]), sort_key=number)

    ends = [Column("outside the curve", off_curve)] if off_curve_note(shown) else []
    shares = [metric_column(EFFICIENCY, EFFICIENCY, 3)] if EFFICIENCY in shown else []
    return [
        Column("Q-bar", lambda row: Cell(f"{row['quality_loss_km']:g}", sort_key=row["quality_loss_km"]), "km"),
        lppm_column(),
        Column("P_AE", lambda row: _marked(metric_cell(row, "error_km", 3), row), "km", "adversary error"),
        Column(f"minus {against}", difference, "km"),
        *shares,
        *beside_columns(shown),
        Column("users", lambda row: Cell(f"{row['users']} of {row['of_users']}", sort_key=row["users"])),
        *ends,
    ]


def at_loss_caption(shown: pd.DataFrame) -> str:
    """Return the caption of the comparison at equal loss."""
    return (
        "Adversary error P_AE at equal quality loss Q-bar, in km, interpolated on each user's curve, over the users "
        "whose error without any report, P0, is at least the loss; differences paired by user; "
        f"{table_spread_note(shown, 'users and replications')}{significance_note(shown)}{_efficiency_note(shown)}"
        f"{off_curve_note(shown)}"
    )


def _efficiency_note(shown: pd.DataFrame) -> str:
    return f"; efficiency: P_AE divided by that of {shown[CEILING].iloc[0]}" if EFFICIENCY in shown else ""


def compared_users_note(standings: pd.DataFrame) -> str:
    """Return a clause on the users whose means the ranked mechanisms of a tournament have; empty without a rank."""
    users = standings.loc[standings["rank"].notna(), "users"].dropna()
    if users.empty:
        return ""
    return f", over the {users.max():,} users whose error without any report, P0, is at least that loss"
