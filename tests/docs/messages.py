"""Codes of error messages: those that the code uses, and those that the documentation explains.

`python -m tests.docs.messages` merges the files of docs/reference/messages.d into docs/reference/messages.md, sorted by
code, and removes them. The text of the page takes precedence over theirs, and the longest of theirs over the others;
texts that are dropped are printed.
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


def merge(page: str, entries: list[str]) -> tuple[str, list[tuple[str, str]]]:
    """Return a page with the sections of further texts, sorted by code, and code and text of those that are dropped."""
    head, *_ = _HEADING.split(page)
    kept = dict(_sections(page))
    others = [section for entry in entries for section in _sections(entry)]
    candidates = sorted(others, key=lambda section: -len(section[1]))
    kept |= {code: text for code, text in reversed(candidates) if code not in kept}
    dropped = [(code, text) for code, text in others if kept[code] != text]
    return head + "\n".join(f"## `{code}`\n\n{kept[code]}\n" for code in sorted(kept)), dropped


def _sections(text: str) -> list[tuple[str, str]]:
    _, *parts = _HEADING.split(text)
    return [(code, body.strip()) for code, body in zip(parts[::2], parts[1::2], strict=True)]


def literals(sources: Path) -> set[str]:
    """Return all strings that equal a code in form."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in sources.rglob("*.py"))
    constants = (node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str) and _CODE.fullmatch(value)}


def _codes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield literal values of arguments, parameters and class attributes `code`, and defaults of `code_of`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "code":
            yield from _literals(node.value)
        elif isinstance(node, ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.Assign | ast.AnnAssign) and "code" in _names(statement):
                    yield from _literals(statement.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "code_of":
            yield from _literals(node.args[1])
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


def main() -> None:
    """Merge the pending entries into the page."""
    pending = [path.read_text(encoding="utf-8") for path in sorted(PENDING.glob("*.md"))]
    merged, dropped = merge(PAGE.read_text(encoding="utf-8"), pending)
    PAGE.write_text(merged, encoding="utf-8")
    shutil.rmtree(PENDING, ignore_errors=True)
    for code, text in dropped:
        print(f"dropped `{code}`: {text}")


if __name__ == "__main__":
    main()
