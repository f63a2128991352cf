"""Result tables as LaTeX, for documents that load the package booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sim.analysis.tables import Cell, Column, Table

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\symbol{34}",
    "±": r"$\pm$",
    "∞": r"$\infty$",
    "†": r"\textdagger{}",
    "–": "--",
    "…": r"\ldots{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}
_SYMBOLS = {"Q-bar": r"$\overline{Q}$", r"P\_AE": r"$P_{AE}$"}
_NEGATIVE = re.compile(r"(?<![\w.-])-(?=\d)")


def latex_text(text: str) -> str:
    r"""Escape text so that LaTeX typesets it literally; characters that cannot be printed are replaced.

    >>> print(latex_text("50 % of P_AE"))
    50 \% of P\_AE
    """
    return "".join(_SPECIAL.get(c, c if c.isprintable() else "\ufffd") for c in text)


def latex_table(table: Table) -> str:
    r"""Return a table as a ``table`` environment with a ``tabular`` in the style of booktabs.

    >>> from sim.analysis.tables import lppm_column, metric_column
    >>> row = {"lppm": "SP_1", "error_km": -0.5, "error_km_low": -0.75, "error_km_high": -0.25}
    >>> columns = [lppm_column(), metric_column("P_AE", "error_km", 2, unit="km", signed=True)]
    >>> print(latex_table(Table(columns, [row], "Errors")))
    \begin{table}
    \centering
    \caption{Errors.}
    \begin{tabular}{lr}
    \toprule
    LPPM & $P_{AE}$ [km] \\
    \midrule
    SP\_1 & $-$0.50 $\pm$ 0.25 \\
    \bottomrule
    \end{tabular}
    \end{table}
    """
    alignment = "".join("r" if column.numeric else "l" for column in table.columns)
    caption = [f"\\caption{{{_typeset(table.caption).rstrip('.')}.}}"] if table.caption else []
    lines = [r"\begin{table}", r"\centering", *caption, f"\\begin{{tabular}}{{{alignment}}}", r"\toprule"]
    lines += [_row([_heading(column) for column in table.columns]), r"\midrule", *_body(table)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])


def _body(table: Table) -> list[str]:
    """Return the rows, with space between sections."""
    lines: list[str] = []
    sections = [table.section(row) if table.section else None for row in table.rows]
    for number, row in enumerate(table.rows):
        if number and sections[number] != sections[number - 1]:
            lines.append(r"\addlinespace")
        lines.append(_row([_cell(column, column.cell(row)) for column in table.columns]))
    return lines


def _row(cells: Sequence[str]) -> str:
    # A bracket or star after a line break would be its argument.
    first, *others = cells
    return " & ".join([f"{{}}{first}" if first.startswith(("[", "*")) else first, *others]) + r" \\"


def _heading(column: Column) -> str:
    unit = f" [{latex_text(column.unit)}]" if column.unit else ""
    return _typeset(column.heading) + unit


def _cell(column: Column, cell: Cell) -> str:
    text = latex_text(" ".join(filter(None, (cell.text, cell.spread, "!" if cell.mark else ""))))
    return _NEGATIVE.sub("$-$", text) if column.numeric else text


def _typeset(text: str) -> str:
    """Escape text and typeset the symbols of loss and error."""
    escaped = latex_text(text)
    for symbol, command in _SYMBOLS.items():
        escaped = escaped.replace(symbol, command)
    return escaped
