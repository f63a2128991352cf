"""The language lint finds what it lists, and nothing in standard sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.lint_language import idioms, in_python, main


@pytest.mark.parametrize(
    "line",
    [
        "0.5 unless said",
        "it reaches nobody: it begins with query 10",
        "0.02 less, may be chance",
        "a compiled equal is used",
        "corrupt entries are made anew",
        "Who wants a last word has conclude",
        "this is no manifest of a run",
        "the user herself",
    ],
)
def test_idioms_are_reported(line: str) -> None:
    assert list(idioms(line))


@pytest.mark.parametrize(
    "line",
    [
        "Half-life in days.",
        "shift never takes effect: starts at query 10, longest test has 9 queries",
        "the adversary error is no larger than the quality loss",
        "0.02 lower (not significant)",
        "an idiom in a quotation: unless said  # language: quoted",
    ],
)
def test_standard_sentences_are_not_reported(line: str) -> None:
    assert not list(idioms(line))


@pytest.mark.parametrize(
    ("source", "is_test"),
    [
        ("found = 1", False),
        ("def f(said): pass", False),
        ("for there in (1, 2): pass", False),
        ('def f():\n    """What was read."""', False),
        ("x = 1  # told apart", False),
        ('raises(ValueError, match="there is no such file")', True),
    ],
)
def test_names_openings_comments_and_prose_patterns_are_reported(source: str, is_test: bool) -> None:
    assert list(in_python(source, is_test=is_test))


@pytest.mark.parametrize(
    "source", ['match = re.search("a", b)', 'raises(ValueError, match=r"^epsilon_per_km\\b")', "frame = said.copy()"]
)
def test_standard_code_is_not_reported(source: str) -> None:
    assert not list(in_python(source, is_test=True))


def test_exit_code_and_place_of_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("Fine.\nIt is told.\n")
    assert main([str(page)]) == 1
    assert f"{page}:2: " in capsys.readouterr().out
    page.write_text("Fine.\n")
    assert main([str(page)]) == 0
