"""Definitions of the displayed result tables: columns with headings, units, formats and captions.

`sim.cli.output` renders them for the terminal, `sim.report` as HTML. CSV files have the underlying frames with all
digits. `Column.cell` formats a row of such a frame, a mapping of column names to values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from sim.analysis.metrics import METRICS
from sim.analysis.statistics import ENDS, FEWEST_USERS, INTERVAL, NONE, OWN_VALUES, SPREAD, metric_bounds
from sim.analysis.sweep_labels import path_headings, swept_value

_ROUNDING = 1e-9

Row = Mapping[Any, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """Displayed content of one table cell."""

    text: str = ""
    spread: str = ""
    """Spread around a mean; empty if there is none."""
    sort_key: object = None
    """Sort key in a numeric column; None in a text column."""
    mark: str = ""
    """Reason why the value is marked with an exclamation mark; empty if it is not."""


@dataclass(frozen=True, slots=True)
class Column:
    """Heading of a column and the formatter of its cells."""

    heading: str
    cell: Callable[[Row], Cell]
    unit: str = ""
    meaning: str = ""
    numeric: bool = True
    names_row: bool = False
    """Whether the column has the row names."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns, rows and a caption; consecutive rows with the same `section` are grouped."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    caption: str
    section: Callable[[Row], object] | None = None
    hint: str = ""
    """Clause on how to get missing columns, shown after the caption by the terminal, but not in LaTeX."""


def text_column(heading: str, key: str, *, names_row: bool = False) -> Column:
    """Return a text column."""
    return Column(heading, lambda row: Cell(str(row[key])), numeric=False, names_row=names_row)


def lppm_column(key: str = "lppm") -> Column:
    """Return the column of mechanism names."""
    return text_column("LPPM", key, names_row=True)


def metric_column(
    heading: str, key: str, digits: int = 3, *, unit: str = "", meaning: str = "", signed: bool = False
) -> Column:
    """Return a column of means with their spread."""
    return Column(heading, lambda row: metric_cell(row, key, digits, signed=signed), unit, meaning)


def swept_columns(paths: Sequence[str]) -> list[Column]:
    """Return a column for each swept path, for rows of `with_swept_cells`."""
    headings = path_headings(paths)

    def cell(path: str) -> Callable[[Row], Cell]:
        return lambda row: _swept_cell(row[_SWEPT].get(path))

    return [Column(headings[path], cell(path), meaning=path) for path in paths]


def with_swept_cells(rows: Sequence[Row], values: Sequence[Row]) -> list[Row]:
    """Return rows extended by their swept values, a mapping from path to value each."""
    return [{**row, _SWEPT: own} for row, own in zip(rows, values, strict=True)]


def metric_cell(row: Row, key: str, digits: int, *, signed: bool = False, mark: str = "") -> Cell:
    """Return the cell of a mean with its spread; empty if the mean is missing."""
    value: Any = row.get(key)
    if is_missing(value):
        return Cell(sort_key="")
    if math.isinf(value):
        return Cell("\u221e", sort_key="Infinity", mark=mark)
    text, around = format_metric(row, key, digits, signed=signed)
    return Cell(text, around, f"{value:.6g}", mark)


def expected_cell(row: Row, key: str, digits: int = 3, *, mark: str = "") -> Cell:
    """Return the cell of a mean with its spread: the expected mean where recorded, which has less noise."""
    best = f"expected_{key}" if pd.notna(row.get(f"expected_{key}")) else key
    return metric_cell(row, best, digits, mark=mark)


def is_missing(value: Any) -> bool:
    """Return whether a value of a row is missing."""
    return value is None or bool(pd.isna(value))


def _swept_cell(value: Any) -> Cell:
    if is_missing(value):
        return Cell(sort_key="")
    return Cell(swept_value(value), sort_key=value if isinstance(value, int | float) else None)


def _count_cell(value: float) -> Cell:
    """Return the cell of a number of queries, without decimals."""
    return Cell(sort_key="") if is_missing(value) else Cell(f"{value:.0f}", sort_key=f"{value:.6g}")


ABOVE_BUDGET = "exceeds the quality budget"
_BY_ATTACK, _SWEPT = "by attack", "swept values"


def rows_by_attack(summary: pd.DataFrame, keys: Sequence[str]) -> list[Row]:
    """Return one row per group of `keys` of a summary, which holds the rows of all attacks.

    These are the rows that `loss_and_error_columns` expects.
    """
    rows: list[Row] = []
    for _, own in summary.groupby(list(keys), sort=False):
        records = own.to_dict("records")
        rows.append(records[0] | {_BY_ATTACK: {record["attack"]: record for record in records}})
    return rows


def loss_and_error_columns(attacks: Sequence[str], exceeded_km: Callable[[Row], float | None]) -> list[Column]:
    """Return the column of the quality loss and one column of the adversary error per attack.

    `exceeded_km` returns the budget that the loss of a row exceeds, or None.
    """

    def error(attack: str) -> Callable[[Row], Cell]:
        return lambda row: expected_cell(row[_BY_ATTACK].get(attack, {}), "adversary_error_km")

    return [
        Column("Q-bar", _loss_cell(exceeded_km), "km", "quality loss"),
        *(Column(f"P_AE {attack}", error(attack), "km", "adversary error") for attack in attacks),
    ]


def loss_and_error_by_row(exceeded_km: Callable[[Row], float | None]) -> list[Column]:
    """Return the columns of quality loss, attack and adversary error, for one row per attack of a summary."""
    return [
        Column("Q-bar", _loss_cell(exceeded_km), "km", "quality loss"),
        text_column("attack", "attack"),
        Column("P_AE", lambda row: expected_cell(row, "adversary_error_km"), "km", "adversary error"),
    ]


def _loss_cell(exceeded_km: Callable[[Row], float | None]) -> Callable[[Row], Cell]:
    def cell(row: Row) -> Cell:
        if (asked_km := exceeded_km(row)) is None:
            return expected_cell(row, "quality_loss_km")
        loss = expected_cell(row, "quality_loss_km", mark=ABOVE_BUDGET)
        return replace(loss, spread=f"{loss.spread}, asked {asked_km:g}".removeprefix(", "))

    return cell


def summary_caption(summary: pd.DataFrame, *, over_budget: bool) -> str:
    """Return the caption of the table of loss and error."""
    several = (summary.get("replications", pd.Series(1)) > 1).any()
    units = "users and replications" if several else "users"
    units = "replications" if (summary["users"] == 1).all() else units
    expected = summary["expected_quality_loss_km"].notna().any()
    return (
        f"Quality loss Q-bar and adversary error P_AE, in km; {table_spread_note(summary, units)}"
        + ("; expected over the mechanism's noise where recorded" if expected else "")
        + (f"; ! {ABOVE_BUDGET}" if over_budget else "")
    )


def metrics_columns(names: Sequence[str]) -> list[Column]:
    """Return the columns of some of `METRICS`."""
    shown = {name: METRICS[name] for name in names}
    return [
        metric_column(metric.heading, name, metric.digits, meaning=metric.description) for name, metric in shown.items()
    ]


PAST_ERRORS = (
    metric_column("P_AE", "adversary_error_km", unit="km", meaning="adversary error of the revised estimates"),
    metric_column("online", "online_error_km", unit="km", meaning="adversary error of the online estimates"),
    metric_column("gain", "gain_km", unit="km", meaning="reduction by later reports, paired by query"),
    Column("users", lambda row: Cell(str(row["users"]), sort_key=row["users"])),
)
"""Columns of the errors of revised estimates of past queries."""


def past_errors_caption(errors: pd.DataFrame) -> str:
    """Return the caption of the table of errors of revised estimates."""
    return (
        "Adversary error of past queries, in km: estimates revised after further reports (lag) or after the last one "
        f"(final), and online estimates of the same queries; gains paired by query; {table_spread_note(errors)}"
    )


def _not_recovered(row: Row) -> Cell:
    return Cell(f"{row['censored']} of {row['users']}", sort_key=row["censored"])


def _pooled_recovery(row: Row) -> Cell:
    taken = row["pooled_queries_to_recover"]
    if is_missing(taken):
        return Cell(sort_key="")
    return Cell(f"> {taken:.0f}" if row["pooled_censored"] else f"{taken:.0f}", sort_key=f"{taken:.0f}")


def _loss_before(row: Row) -> Cell:
    value: Any = row.get("quality_loss_before_km")
    counts: list[Any] = [row.get(name, 0) for name in ("at_largest", "at_smallest")]
    ends = any(not is_missing(count) and count > 0 for count in counts)
    return Cell(sort_key="") if is_missing(value) else Cell(f"{value:.2f}{'*' if ends else ''}", sort_key=value)


ADAPTATION = (
    Column("Q-bar", _loss_before, "km", "quality loss before the shift, mean over users"),
    metric_column("Q after", "quality_loss_after_km", 2, unit="km", meaning="quality loss after the shift"),
    metric_column("before", "efficiency_before", meaning="efficiency before the shift"),
    metric_column("minimum", "efficiency_lowest", meaning="lowest efficiency of a window after the shift"),
    metric_column("end", "efficiency_end", meaning="efficiency of the last window"),
    Column(
        "median",
        lambda row: _count_cell(row["queries_to_recover_median"]),
        meaning="queries to recover, median over users",
    ),
    metric_column("mean", "queries_to_recover", 0, meaning="queries to recover, mean over users"),
    metric_column("lost", "queries_lost", 1, meaning="queries lost until recovery"),
    Column("censored", _not_recovered, meaning="users who do not recover"),
    Column("pooled", _pooled_recovery, meaning="queries to recover, pooled over users"),
)
"""Columns of the efficiency around a shift and the time to recover."""


def adaptation_caption(shown: pd.DataFrame, window: int, recovered: float) -> str:
    """Return the caption of the adaptation table."""
    shifts = ", ".join(dict.fromkeys(shown["shift"]))
    ends = (shown[["at_largest", "at_smallest"]].sum(axis=1) > 0).any() if "at_largest" in shown else False
    mark = "; * users who do not attain the loss have the values at their nearest one" if ends else ""
    return (
        f"Efficiency P_AE / Q-bar before and after {shifts}; queries until the efficiency of a window of {window} "
        f"queries recovers to {100 * recovered:g} %: median and mean over users (censored users count with all their "
        f"queries) and pooled over users; queries lost until recovery; {table_spread_note(shown)}{mark}"
    )


def rank_columns(digits: int) -> list[Column]:
    """Return the columns rank, mechanism and quality loss of a table of standings."""
    return [
        Column("rank", lambda row: Cell(*_rank(row["rank"]))),
        lppm_column(),
        metric_column("Q-bar", "quality_loss_km", digits, unit="km", meaning="quality loss"),
    ]


def _rank(rank: Any) -> tuple[str, str, str]:
    text = "" if is_missing(rank) else str(rank)
    return text, "", text


def format_metric(row: Mapping[Any, Any], name: str, digits: int, *, signed: bool = False) -> tuple[str, str]:
    """Return a mean and its spread as text; the spread is empty if there is none.

    `± half` is a confidence interval, `[low, high]` one that is truncated at a bound of the metric (`signed` metrics
    have no bounds), and `(low to high)` the range over users.

    >>> row = {"error_km": 0.5, "error_km_low": 0.25, "error_km_high": 0.75}
    >>> format_metric(row, "error_km", 2)
    ('0.50', '± 0.25')
    >>> format_metric(row | {"error_km_low": -0.1, "error_km_high": 1.1}, "error_km", 2)
    ('0.50', '[0.00, 1.10]')
    >>> format_metric(row | {"spread": "users"}, "error_km", 2)
    ('0.50', '(0.25 to 0.75)')
    >>> format_metric({"error_km": -0.001}, "error_km", 2)
    ('0.00', '')
    """
    mean, low, high = (row.get(name + end) for end in ENDS)
    if mean is None or pd.isna(mean):
        return "", ""
    text = f"{mean:z.{digits}f}"
    if low is None or high is None or pd.isna(low) or pd.isna(high):
        return text, ""
    if row.get(SPREAD) == OWN_VALUES:
        return text, f"({low:z.{digits}f} to {high:z.{digits}f})"
    least, most = metric_bounds("difference_km" if signed else name)
    low, high = max(low, least), min(high, most)
    is_cut = (low, high) == (least, most) or abs((high - mean) - (mean - low)) > _ROUNDING * max(1.0, high - low)
    return text, f"[{low:z.{digits}f}, {high:z.{digits}f}]" if is_cut else f"± {high - mean:z.{digits}f}"


def spread_note(spreads: Sequence[str], units: str = "users") -> str:
    """Return the note on the spread shown in a table with these values of `spread`.

    >>> spread_note(["interval"]), spread_note(["users"])
    ('95 % confidence intervals over users', 'range over users in parentheses (no intervals for fewer than 5 users)')
    """
    notes = {
        INTERVAL: f"95 % confidence intervals over {units}",
        OWN_VALUES: f"range over users in parentheses (no intervals for fewer than {FEWEST_USERS} users)",
        NONE: f"no intervals for one user with fewer than {FEWEST_USERS} replications",
    }
    return "; ".join(text for kind, text in notes.items() if kind in (spreads or [INTERVAL]))


def table_spread_note(table: pd.DataFrame, units: str = "users") -> str:
    """Return the note on the spread in a table of `with_spread`."""
    return spread_note(list(table[SPREAD]) if SPREAD in table else [INTERVAL], units)
