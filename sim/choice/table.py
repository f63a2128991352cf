"""The table of candidates, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Callable

from sim.analysis.statistics import FEWEST_USERS
from sim.analysis.tables import Cell, Column, Row, Table, text_column
from sim.choice.ranking import Candidate, Interval, Ranking
from sim.choice.request import Request
from sim.components.wording import counted


def ranking_table(ranking: Ranking, request: Request) -> Table:
    """Return a row for each candidate, the best first."""
    rows = [_row(number, one, ranking) for number, one in enumerate(ranking.candidates, start=1)]
    behind = "error below the first" if request.limits_loss else "loss above the first"
    columns = [
        Column("#", lambda row: Cell(str(row["rank"]), sort_key=row["rank"])),
        text_column("LPPM", "name", names_row=True),
        text_column("parameter", "parameter"),
        Column("strength", lambda row: Cell(f"{row['strength']:.4g}", sort_key=row["strength"])),
        Column("loss", _marked("loss_km", 3, at=request.limits_loss), "km", "mean quality loss over the users"),
        Column("95 %", lambda row: Cell(f"{row['loss_95_km']:.2f}", sort_key=row["loss_95_km"]), "km", "of the users"),
        *([Column("hidden", _hidden, "%", "homes not known in the time asked for")] if _has_homes(ranking) else []),
        text_column("strongest attack", "strongest"),
        Column(
            "error", _marked("error_km", 2, at=request.kind == "min-error"), "km", "mean error of the strongest attack"
        ),
        Column(behind, _behind, "km", "paired difference to the first candidate"),
    ]
    spread = (
        f"no intervals for fewer than {FEWEST_USERS} users"
        if ranking.users < FEWEST_USERS
        else "± 95 % intervals over users, of the differences for all comparisons together"
    )
    users = counted(ranking.users, "user")
    ties = "; = not distinguishable from the first" if ranking.ties else ""
    caption = f"Candidates calibrated to the goal, best first; {users}; {spread}{ties}; ! goal not met exactly"
    return Table(columns, rows, caption)


def _row(number: int, one: Candidate, ranking: Ranking) -> Row:
    names = ("name", "parameter", "strength", "outcome", "loss_km", "loss_95_km", "strongest", "error_km", "hidden")
    values = {name: getattr(one, name) for name in names}
    return values | {"rank": number, "behind": one.behind, "tie": one.name in ranking.ties}


def _has_homes(ranking: Ranking) -> bool:
    return any(one.hidden is not None for one in ranking.candidates)


def _mark(row: Row) -> str:
    return "" if row["outcome"] == "reached" else "the goal is not met exactly"


def _marked(key: str, digits: int, *, at: bool) -> Callable[[Row], Cell]:
    """Return cells of an interval, with the mark if the goal is a value of this column."""
    return lambda row: _cell(row[key], digits, _mark(row) if at else "")


def _hidden(row: Row) -> Cell:
    share: Interval = row["hidden"]
    return _cell(Interval(100 * share.value, 100 * share.low, 100 * share.high), 0, _mark(row))


def _behind(row: Row) -> Cell:
    if row["behind"] is None:
        return Cell(sort_key="0")
    cell = _cell(row["behind"], 3)
    return Cell(f"= {cell.text}" if row["tie"] else cell.text, cell.spread, cell.sort_key)


def _cell(value: Interval, digits: int, mark: str = "") -> Cell:
    spread = "" if math.isnan(value.low) else f"± {value.half:.{digits}f}"
    return Cell(f"{value.value:.{digits}f}", spread, f"{value.value:.6g}", mark)
