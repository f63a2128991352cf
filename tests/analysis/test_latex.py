"""Tables as LaTeX: escaped names, intervals, the structure of booktabs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sim.analysis.latex import latex_table, latex_text
from sim.analysis.tables import Cell, Column, Table, lppm_column, metric_column, text_column
from tests.support import HOSTILE

SPECIAL = r"""\input{/etc/passwd} a&b 50% $x$ #1 _y_ {z} ~ ^ < > | "q" \\"""


def table(name: str, **values: float) -> Table:
    row = {"lppm": name, "attack": "a_1", "error_km": 0.5, "error_km_low": 0.25, "error_km_high": 0.75} | values
    columns = [lppm_column(), text_column("attack", "attack"), metric_column("P_AE", "error_km", 2, unit="km")]
    return Table(columns, [row, row | {"lppm": "other"}], "Errors & more", section=lambda one: one["lppm"])


def test_commands_are_only_those_of_the_table() -> None:
    """After escape sequences are removed, no special character remains."""
    rest = re.sub(r"\\(text[a-z]+\{\}|symbol\{34\}|[&%$#_{}])", "", latex_text(SPECIAL))
    assert not set(rest) & set('\\&%$#_{}~^<>|"')
    assert r"\textbackslash{}input\{/etc/passwd\}" in latex_text(SPECIAL)


@pytest.mark.parametrize("name", [*HOSTILE, SPECIAL, "[x]", "*", "line\nbreak"])
def test_each_row_has_all_cells_in_one_line(name: str) -> None:
    lines = latex_table(table(name)).splitlines()
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert body[1] == r"\addlinespace"
    for line in (body[0], body[2]):
        assert line.endswith(r"\\")
        assert len(re.findall(r"(?<!\\)&", line)) == 2
        assert not line.startswith(("[", "*"))


def test_intervals_and_headings() -> None:
    text = latex_table(table("SP"))
    assert r"LPPM & attack & $P_{AE}$ [km] \\" in text
    assert r"SP & a\_1 & 0.50 $\pm$ 0.25 \\" in text
    assert r"\caption{Errors \& more.}" in text
    assert r"\begin{tabular}{llr}" in text
    assert "0.50 [0.00, 1.10]" in latex_table(table("SP", error_km_low=-0.1, error_km_high=1.1))


def test_signs_and_marks() -> None:
    cells = {"minus": Cell("-1.5"), "infinite": Cell("∞"), "mark": Cell("2", mark="exceeds"), "significant": Cell("3†")}
    columns = [Column(name, lambda row, name=name: row[name]) for name in cells]  # type: ignore[misc]
    text = latex_table(Table(columns, [cells], ""))
    assert r"$-$1.5 & $\infty$ & 2 ! & 3\textdagger{} \\" in text
    assert "caption" not in text


def test_hints_of_the_terminal_are_not_in_the_caption() -> None:
    hinted = replace(table("a"), hint="; not recorded: entropy (needs record.posterior)")
    assert latex_table(hinted) == latex_table(table("a"))
