"""Table of the answers in the terminal, and as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd

from sim.analysis.answers.of_run import Answers
from sim.analysis.answers.shown import (
    answer_columns,
    answers_caption,
    displayed_rows,
    resolved_rows,
    shown_answers,
)
from sim.analysis.result import Result
from sim.analysis.sweep_labels import in_order, with_swept_values
from sim.analysis.tables import Table, lppm_column, swept_columns, text_column, with_swept_cells
from sim.cli.output.tables import print_table, swept_paths
from sim.cli.output.terminal import stdout
from sim.escaping import escape


def print_answers(result: Result, answers: Answers) -> None:
    """Print the table of answers, question by question, and its notes."""
    resolved, omitted = resolved_rows(answers.table)
    shown = in_order(shown_answers(resolved, answers.questions), result.run)
    order = {question: number for number, question in enumerate(dict.fromkeys(answers.table["question"]))}
    keys = ["_question", "radius_km", "places"]
    shown = shown.assign(_question=shown["question"].map(order)).sort_values(keys, kind="stable", ignore_index=True)
    points = result.points()
    swept = with_swept_values(shown[["lppm", "point"]], points).to_dict("records")
    labels = [lppm_column(), *swept_columns(swept_paths(points)), text_column("attack", "attack")]
    rows = with_swept_cells(displayed_rows(shown), swept)
    print_table(Table(answer_columns(labels), rows, answers_caption(shown), section=lambda row: row["question"]))
    for note in filter(None, (*answers.notes, omitted)):
        stdout().print(escape(note), highlight=False)


def answers_json(answers: Answers) -> str:
    """Return the answers as JSON: both tables as lists of objects, missing values as null, infinite ones as a text."""
    return json.dumps(
        {
            "answers": _records(answers.table),
            "home_exposure": _records(answers.home_exposure),
            "notes": list(answers.notes),
        },
        indent=2,
        allow_nan=False,
    )


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): _plain(value) for name, value in row.items()} for row in table.to_dict("records")]


def _plain(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return "not reached" if isinstance(value, float) and math.isinf(value) else value
