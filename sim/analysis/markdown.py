"""Result tables as Markdown, for notes, issues and web pages."""

from __future__ import annotations

from sim.analysis.tables import Table


def markdown_text(text: str) -> str:
    r"""Escape text so that Markdown shows it literally in a cell; characters that cannot be printed are replaced.

    >>> print(markdown_text("a|b_<c>"))
    a\|b\_\<c\>
    """
    printable = (c if c.isprintable() else "\ufffd" for c in text)
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>()#!|~&" else c for c in printable)


def markdown_table(table: Table) -> str:
    r"""Return the caption and the table; a cell has the value, its spread and `!` if it is marked.

    >>> from sim.analysis.tables import lppm_column, metric_column
    >>> row = {"lppm": "SP_1", "error_km": 0.5, "error_km_low": 0.25, "error_km_high": 0.75}
    >>> print(markdown_table(Table([lppm_column(), metric_column("P_AE", "error_km", 2, unit="km")], [row], "Errors")))
    Errors.
    <BLANKLINE>
    | LPPM | P\_AE \[km\] |
    |:--|--:|
    | SP\_1 | 0.50 ± 0.25 |
    """
    headings = [f"{own.heading} [{own.unit}]" if own.unit else own.heading for own in table.columns]
    cells = [[column.cell(row) for column in table.columns] for row in table.rows]
    texts = [
        headings,
        *([" ".join(filter(None, (cell.text, cell.spread, "!" * bool(cell.mark)))) for cell in row] for row in cells),
    ]
    heading, *rows = [f"| {' | '.join(map(markdown_text, line))} |" for line in texts]
    alignment = f"|{'|'.join('--:' if column.numeric else ':--' for column in table.columns)}|"
    caption = [f"{markdown_text(table.caption).rstrip('.')}.", ""] if table.caption else []
    return "\n".join([*caption, heading, alignment, *rows])
