"""Codes of error messages: those that the code uses, and those that the documentation explains.

`python -m tests.docs.messages` merges the files of docs/reference/messages.d into docs/reference/messages.md, sorted by
code, and removes them. Texts of the same code are joined: edit them afterwards.
"""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE = REFERENCE / "messages.md"
PENDING = REFERENCE / "messages.d"

_CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_HEADING = re.compile(r"^## `([a-z0-9-]+)`$", re.MULTILINE)


def used_codes(sources: Path) -> dict[str, str]:
    """Return each code that a module uses, with the place of its first use."""
    codes: dict[str, str] = {}
    for path in sorted(sources.rglob("*.py")):
        for line, code in _codes(ast.parse(path.read_text(encoding="utf-8"))):
            codes.setdefault(code, f"{path.relative_to(sources.parent)}:{line}")
    return codes


def explained_codes(page: Path) -> list[str]:
    """Return the codes of the headings of a page, in order."""
    return _HEADING.findall(page.read_text(encoding="utf-8"))


def merge(page: str, entries: list[str]) -> str:
    """Return a page with the sections of further texts, sorted by code; texts of the same code are joined."""
    head, *_ = _HEADING.split(page)
    sections: dict[str, list[str]] = {}
    for text in (page, *entries):
        _, *parts = _HEADING.split(text)
        for code, body in zip(parts[::2], parts[1::2], strict=True):
            known = sections.setdefault(code, [])
            known += [body.strip()] if body.strip() not in known else []
    bodies = ("\n\n".join(sections[code]) for code in sorted(sections))
    return head + "\n".join(f"## `{code}`\n\n{body}\n" for code, body in zip(sorted(sections), bodies, strict=True))


def _codes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield literal values of arguments and parameters `code` and of class attributes `code`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "code":
            yield from _literals(node.value)
        elif isinstance(node, ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.Assign | ast.AnnAssign) and "code" in _names(statement):
                    yield from _literals(statement.value)
        elif isinstance(node, ast.FunctionDef):
            for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
                if argument.arg == "code":
                    yield from _literals(default)


def _names(statement: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _literals(value: ast.expr | None) -> Iterator[tuple[int, str]]:
    """Yield the codes among the strings of an expression, both branches of a conditional included."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str) and _CODE.fullmatch(value.value):
        yield value.lineno, value.value
    elif isinstance(value, ast.IfExp):
        yield from _literals(value.body)
        yield from _literals(value.orelse)


if __name__ == "__main__":
    merged = merge(PAGE.read_text(encoding="utf-8"), [path.read_text("utf-8") for path in sorted(PENDING.glob("*.md"))])
    PAGE.write_text(merged, encoding="utf-8")
    shutil.rmtree(PENDING, ignore_errors=True)
