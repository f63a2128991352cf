"""HTML tables of the page, from the definitions of `sim.analysis.tables`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from sim.analysis.budgets import exceeded
from sim.analysis.calibrations import calibration_table
from sim.analysis.equal_loss_tables import beside_columns, beside_note, is_off_curve, off_curve_note
from sim.analysis.metrics import METRICS, recorded_metrics
from sim.analysis.ranking import MARK
from sim.analysis.tables import (
    ADAPTATION,
    PAST_ERRORS,
    Cell,
    Column,
    Row,
    Table,
    adaptation_caption,
    loss_and_error_columns,
    lppm_column,
    metrics_columns,
    past_errors_caption,
    rank_columns,
    rows_by_attack,
    summary_caption,
    swept_columns,
    table_spread_note,
    text_column,
    with_swept_cells,
)
from sim.analysis.tournament import STANDINGS
from sim.report.markup import Markup, bulleted, joined, tag, typeset
from sim.report.study import Study
from sim.storage.errors import RunError

_SHADES = 8
_TALL = 40
"""Number of rows above which a table scrolls."""


def html_table(table: Table) -> Markup:
    """Return a table as HTML."""
    rows = [tag("tr", *(_cell(column, column.cell(row)) for column in table.columns)) for row in table.rows]
    return sortable([heading(column) for column in table.columns], rows, table.caption)


def sortable(heads: Sequence[Markup], rows: Sequence[Markup], caption: str = "") -> Markup:
    """Return a sortable table in a container that scrolls if the table is too wide or very long."""
    parts = [tag("caption", typeset(caption)) if caption else "", tag("thead", tag("tr", *heads)), tag("tbody", *rows)]
    kind = "wide tall" if len(rows) > _TALL else "wide"
    return tag("div", tag("table", *parts, class_="sortable"), class_=kind)


def heading(column: Column) -> Markup:
    """Return the header cell of a column."""
    unit = joined([" ", tag("small", column.unit)]) if column.unit else ""
    kind = "number" if column.numeric else "text"
    return tag("th", typeset(column.heading), unit, scope="col", data_type=kind, title=column.meaning or None)


def _cell(column: Column, cell: Cell) -> Markup:
    if column.names_row:
        return tag("th", cell.text, scope="row")
    spread = tag("span", f" {cell.spread}", class_="pm") if cell.spread else ""
    mark = tag("b", " !", title=cell.mark) if cell.mark else ""
    return tag("td", cell.text, spread, mark, data_value=cell.sort_key)


def table(study: Study) -> Markup:
    """Return the table of loss and error: one row per mechanism and sweep point, one column per attack."""
    paths = list(dict.fromkeys(path for result in study.results for path in result.points().columns.drop("point")))
    over = {name: exceeded(result.manifest) for name, result in zip(study.names, study.results, strict=True)}
    rows = rows_by_attack(study.summary, ["run", "lppm", "point"])
    values = [{path: row.get(path, row.get(f"{path}_swept")) for path in paths} for row in rows]

    def exceeded_km(row: Row) -> float | None:
        return over[row["run"]].get((row["point"], row["own_lppm"]))

    columns = [
        *([text_column("run", "run")] if study.compared else []),
        lppm_column("own_lppm" if study.compared else "lppm"),
        *swept_columns(paths),
        *loss_and_error_columns(list(dict.fromkeys(filter(None, study.summary["attack"]))), exceeded_km),
    ]
    caption = summary_caption(study.summary, over_budget=any(over.values()))
    return html_table(Table(columns, with_swept_cells(rows, values), f"{caption}."))


def standings(study: Study) -> Markup:
    """Return the standings: cells shaded by the adversary error, the strongest attack in bold."""
    table = study.tournament
    if table.empty:
        return Markup("")
    attacks = list(table.columns.drop(STANDINGS))
    top = float(table[attacks].to_numpy(float, na_value=0.0).max()) or 1.0
    columns = [*rank_columns(2), *beside_columns(table, 2)]
    heads = [heading(column) for column in columns]
    heads += [tag("th", attack, scope="col", data_type="number", title="adversary error") for attack in attacks]
    rows = []
    for row in table.to_dict("records"):
        cells = [_cell(column, column.cell(row)) for column in columns]
        for attack in attacks:
            error = row[attack]
            text = "\u2013" if pd.isna(error) else f"{error:.2f}"
            shade = None if pd.isna(error) else f"shade-{round(_SHADES * error / top)}"
            text += MARK if attack == row["strongest"] and is_off_curve(row) else ""
            inside = tag("b", text) if attack == row["strongest"] else text
            cells.append(tag("td", inside, data_value="" if pd.isna(error) else f"{error:.6g}", class_=shade))
        rows.append(tag("tr", *cells))
    caption = (
        "Adversary error P_AE, in km, of every attack on every mechanism, best protection first. Bold: strongest "
        "attack, which determines the rank. Mechanisms without a rank do not attain the common quality loss (shown at "
        "their nearest loss), or some attack cannot be computed against them. At a common loss, users are those whose "
        f"error without any report is at least the loss{off_curve_note(table)}{beside_note(table)}."
    )
    return sortable(heads, rows, caption)


def calibrations(study: Study) -> Markup:
    """Return a table per run of the strengths that replace realised budgets."""
    parts: list[Markup] = []
    for name, result in zip(study.names, study.results, strict=True):
        if (table := calibration_table(result.manifest, result.points())) is not None:
            parts += [tag("h3", name)] if study.compared else []
            parts.append(html_table(replace(table, caption=f"{table.caption}.")))
    return joined(parts)


def adaptation(study: Study) -> Markup:
    """Return the adaptation table, nothing without a shift, or the reason why it does not apply."""
    frame = study.adapted("summary")
    if frame.empty:
        reasons = [error for error in study.adaptations if isinstance(error, RunError)]
        return joined(tag("p", f"Adaptation is not available: {reason}", class_="none") for reason in reasons)
    labels = _labels([name for name in ("at", "attack") if frame[name].nunique() > 1])
    caption = adaptation_caption(frame, frame["window"].iloc[0], frame["recovered"].iloc[0])
    return html_table(Table([*labels, *ADAPTATION], frame.to_dict("records"), f"{caption}."))


def metrics(study: Study) -> Markup:
    """Return the table of the recorded metrics with their descriptions, and notes on those not recorded."""
    frame = study.metrics
    names = recorded_metrics(frame)
    labels = _labels([name for name in ("at", "attack") if frame[name].astype(bool).any()])
    caption = (
        "Measured metrics, and metrics predicted under the mechanism's own model (own; means over snapshots); "
        f"{table_spread_note(frame)}."
    )
    table = Table([*labels, *metrics_columns(names)], frame.to_dict("records"), caption)
    descriptions: list[Markup] = []
    for name in names:
        descriptions += [tag("dt", typeset(METRICS[name].heading)), tag("dd", METRICS[name].description)]
    notes = bulleted(_not_recorded(study), "notes")
    return joined([html_table(table), tag("dl", *descriptions), notes, hindsight(study)])


def hindsight(study: Study) -> Markup:
    """Return the table of smoothing errors; nothing if no attack revises its estimates."""
    frame = study.hindsight
    if frame.empty:
        return Markup("")
    labels = _labels([name for name in ("at", "attack", "lag") if frame[name].astype(bool).any()])
    caption = f"{past_errors_caption(frame)}."
    return joined(
        [tag("h3", "Past queries"), html_table(Table([*labels, *PAST_ERRORS], frame.to_dict("records"), caption))]
    )


_LABELS = {"at": "swept values", "attack": "attack", "lag": "lag (reports)"}


def _labels(names: Sequence[str]) -> list[Column]:
    """Return the columns that identify a row."""
    return [lppm_column(), *(text_column(_LABELS[name], name) for name in names)]


def _not_recorded(study: Study) -> Iterator[str]:
    """Yield which setting would record each missing metric."""
    for name, result in zip(study.names, study.results, strict=True):
        for line in result.metric_notes():
            yield f"{name}: {line}" if study.compared else line
