"""Tables of the page: the definitions of `sim.analysis.tables` as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from sim.analysis.budgets import exceeded
from sim.analysis.metrics import METRICS, recorded_metrics, unrecorded_metrics
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
"""A table of more rows than this scrolls."""


def html_table(table: Table) -> Markup:
    """Return a table."""
    rows = [tag("tr", *(_cell(column, column.cell(row)) for column in table.columns)) for row in table.rows]
    return sortable([heading(column) for column in table.columns], rows, table.caption)


def sortable(heads: Sequence[Markup], rows: Sequence[Markup], caption: str = "") -> Markup:
    """Return a table to be sorted, in a place of its own that scrolls where the table is wider or very long."""
    parts = [tag("caption", typeset(caption)) if caption else "", tag("thead", tag("tr", *heads)), tag("tbody", *rows)]
    place = "wide tall" if len(rows) > _TALL else "wide"
    return tag("div", tag("table", *parts, class_="sortable"), class_=place)


def heading(column: Column) -> Markup:
    """Return the head of a column."""
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
    """Return loss and error: a row for each mechanism and sweep point, a column for each attack."""
    paths = list(dict.fromkeys(path for result in study.results for path in result.points().columns.drop("point")))
    over = {name: exceeded(result.manifest) for name, result in zip(study.names, study.results, strict=True)}
    rows = rows_by_attack(study.summary, ["run", "lppm", "point"])
    values = [{path: row.get(path, row.get(f"{path}_swept")) for path in paths} for row in rows]

    def is_over_budget(row: Row) -> bool:
        return (row["point"], row["own_lppm"]) in over[row["run"]]

    columns = [
        *([text_column("run", "run")] if study.compared else []),
        lppm_column("own_lppm" if study.compared else "lppm"),
        *swept_columns(paths),
        *loss_and_error_columns(list(dict.fromkeys(filter(None, study.summary["attack"]))), is_over_budget),
    ]
    caption = summary_caption(study.summary, over_budget=any(over.values()))
    return html_table(Table(columns, with_swept_cells(rows, values), f"{caption}."))


def standings(study: Study) -> Markup:
    """Return the standings of a tournament: cells are shaded by the error, the strongest attack's is bold."""
    table = study.tournament
    if table.empty:
        return Markup("")
    attacks = list(table.columns.drop(STANDINGS))
    top = float(table[attacks].to_numpy(float, na_value=0.0).max()) or 1.0
    columns = rank_columns(2)
    heads = [heading(column) for column in columns]
    heads += [tag("th", attack, scope="col", data_type="number", title="adversary error") for attack in attacks]
    rows = []
    for row in table.to_dict("records"):
        cells = [_cell(column, column.cell(row)) for column in columns]
        for attack in attacks:
            error = row[attack]
            text = "\u2013" if pd.isna(error) else f"{error:.2f}"
            shade = None if pd.isna(error) else f"shade-{round(_SHADES * error / top)}"
            inside = tag("b", text) if attack == row["strongest"] else text
            cells.append(tag("td", inside, data_value="" if pd.isna(error) else f"{error:.6g}", class_=shade))
        rows.append(tag("tr", *cells))
    caption = (
        "P_AE in km of every attack on every mechanism, best protection first; bold: the strongest attack, by which "
        "they are ranked. Without a rank: mechanisms that do not reach the loss, at their own, and those against "
        "which some attack cannot be computed."
    )
    return sortable(heads, rows, caption)


def adaptation(study: Study) -> Markup:
    """Return the table of how mechanisms followed a shift; nothing without a shift, or why it is not applicable."""
    frame = study.adapted("summary")
    if frame.empty:
        reasons = [found for found in study.adaptations if isinstance(found, RunError)]
        return joined(tag("p", f"How mechanisms adapt cannot be told: {reason}", class_="none") for reason in reasons)
    labels = _labels([name for name in ("at", "attack") if frame[name].nunique() > 1])
    caption = adaptation_caption(frame, frame["window"].iloc[0], frame["recovered"].iloc[0])
    return html_table(Table([*labels, *ADAPTATION], frame.to_dict("records"), f"{caption}."))


def figures(study: Study) -> Markup:
    """Return the table of the metrics that were recorded, with the meaning of each, and which were not."""
    frame = study.metrics
    names = recorded_metrics(frame)
    labels = _labels([name for name in ("at", "attack") if frame[name].astype(bool).any()])
    caption = (
        "What mechanisms promise under their own models (own), means over snapshots, beside what happened; "
        f"{table_spread_note(frame)}."
    )
    table = Table([*labels, *metrics_columns(names)], frame.to_dict("records"), caption)
    meanings = [
        part for name in names for part in (tag("dt", typeset(METRICS[name].heading)), tag("dd", METRICS[name].words))
    ]
    return joined([html_table(table), tag("dl", *meanings), bulleted(_not_recorded(study), "notes"), hindsight(study)])


def hindsight(study: Study) -> Markup:
    """Return the table of what attacks make of past queries; nothing where none revises its estimates."""
    frame = study.hindsight
    if frame.empty:
        return Markup("")
    labels = _labels([name for name in ("at", "attack", "lag") if frame[name].astype(bool).any()])
    caption = f"{past_errors_caption(frame)}."
    return joined(
        [tag("h3", "The past"), html_table(Table([*labels, *PAST_ERRORS], frame.to_dict("records"), caption))]
    )


_LABELS = {"at": "with", "attack": "attack", "lag": "reports later"}


def _labels(names: Sequence[str]) -> list[Column]:
    """Return the columns that name a row."""
    return [lppm_column(), *(text_column(_LABELS[name], name) for name in names)]


def _not_recorded(study: Study) -> Iterator[str]:
    """Yield what to set for the metrics that a run has not recorded."""
    for name, result in zip(study.names, study.results, strict=True):
        for line in unrecorded_metrics(result.metrics(), result.manifest):
            yield f"{name}: {line}" if study.compared else line
