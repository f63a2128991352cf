"""Columns and captions of the tables at equal quality loss: `summarize --at` and the standings of a tournament."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from sim.analysis.ranking import MARK, OFF_CURVE, end_counts
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

_BESIDE = {
    SMOOTHED_ERROR_KM: ("smoothed", 3, "km", "adversary error of all estimates after the last report"),
    ENTROPY_BITS: ("entropy", 2, "bits", "entropy of the adversary's posterior"),
}


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
        SMOOTHED_ERROR_KM: "error after smoothing (needs an attack with hindsight, such as smoothing)",
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
        return Cell(sort_key="") if row["lppm"] == against else metric_cell(row, "difference_km", 3)

    def off_curve(row: Row) -> Cell:
        number = row["at_largest"] + row["at_smallest"]
        return Cell(end_counts(row["at_largest"], row["at_smallest"]), sort_key=number)

    ends = [Column("outside the curve", off_curve)] if off_curve_note(shown) else []
    return [
        Column("Q-bar", lambda row: Cell(f"{row['quality_loss_km']:g}", sort_key=row["quality_loss_km"]), "km"),
        lppm_column(),
        Column("P_AE", lambda row: _marked(metric_cell(row, "error_km", 3), row), "km", "adversary error"),
        Column(f"minus {against}", difference, "km"),
        *beside_columns(shown),
        Column("users", lambda row: Cell(f"{row['users']} of {row['of_users']}", sort_key=row["users"])),
        *ends,
    ]


def at_loss_caption(shown: pd.DataFrame) -> str:
    """Return the caption of the comparison at equal loss."""
    return (
        "Adversary error P_AE at equal quality loss Q-bar, in km, interpolated on each user's curve, over the users "
        "whose error without any report, P0, is at least the loss; differences paired by user; "
        f"{table_spread_note(shown, 'users and replications')}{off_curve_note(shown)}{beside_note(shown)}"
    )


def compared_users_note(standings: pd.DataFrame) -> str:
    """Return a clause on the users whose means the ranked mechanisms of a tournament have; empty without a rank."""
    users = standings.loc[standings["rank"].notna(), "users"].dropna()
    if users.empty:
        return ""
    return f", over the {users.max():,} users whose error without any report, P0, is at least that loss"
