"""Every code of a message is explained on the page of messages, and every explained code is used."""

from __future__ import annotations

from pathlib import Path

from tests.docs.messages import PAGE, PENDING, explained_codes, merge, used_codes
from tests.support import ROOT


def _explained() -> list[str]:
    return [code for page in (PAGE, *sorted(PENDING.glob("*.md"))) for code in explained_codes(page)]


def test_every_code_is_explained() -> None:
    explained = set(_explained())
    assert {code: place for code, place in used_codes(ROOT / "sim").items() if code not in explained} == {}


def test_every_explained_code_is_used() -> None:
    used = used_codes(ROOT / "sim")
    assert [code for code in _explained() if code not in used] == []


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


def test_merging_keeps_the_head_and_drops_repeated_texts() -> None:
    page = "# Messages\n\nText.\n\n## `b`\n\nB.\n"
    assert merge(page, ["## `b`\nB.\n"]) == page


def test_merged_entries_are_sorted_and_joined() -> None:
    page = "# Messages\n\n## `b`\n\nB.\n"
    merged = merge(page, ["## `a`\nA.\n## `b`\nB, too.\n"])
    assert merged == "# Messages\n\n## `a`\n\nA.\n\n## `b`\n\nB.\n\nB, too.\n"
