"""Every code of a message is explained on the page of messages, and every explained code is used."""

from __future__ import annotations

from pathlib import Path

from tests.docs.messages import PAGE, PENDING, explained_codes, literals, merge, used_codes
from tests.support import ROOT


def _explained() -> list[str]:
    return [code for page in (PAGE, *sorted(PENDING.glob("*.md"))) for code in explained_codes(page)]


def test_every_code_is_explained() -> None:
    explained = set(_explained())
    assert {code: place for code, place in used_codes(ROOT / "sim").items() if code not in explained} == {}


def test_every_explained_code_is_used() -> None:
    """Tables of codes are data: any string of the package counts as a use."""
    strings = literals(ROOT / "sim")
    assert [code for code in _explained() if code not in strings] == []


def test_codes_are_sorted_and_explained_once() -> None:
    codes = explained_codes(PAGE)
    assert codes == sorted(set(codes))


def test_codes_are_found_in_calls_classes_and_defaults(tmp_path: Path) -> None:
    source = """
class Error(Exception):
    code = "class-default"
    typed: str = "no"
    code: str = "typed-default"

def check(value, *, code="parameter-default"):
    raise Error("text", code="call" if value else "other-call")
    raise Error("text", code=code)
    call(code="Not a code", mode="other")
"""
    (tmp_path / "module.py").write_text(source)
    assert sorted(used_codes(tmp_path)) == [
        "call",
        "class-default",
        "other-call",
        "parameter-default",
        "typed-default",
    ]


def test_merged_entries_are_sorted_and_the_page_takes_precedence() -> None:
    page = "# Messages\n\nText.\n\n## `b`\n\nB.\n"
    merged, dropped = merge(page, ["## `a`\nA.\n## `b`\nB.\n", "## `a`\nA, longer.\n## `b`\nB, longer.\n"])
    assert merged == "# Messages\n\nText.\n\n## `a`\n\nA, longer.\n\n## `b`\n\nB.\n"
    assert dropped == [("a", "A."), ("b", "B, longer.")]
