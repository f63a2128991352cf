"""Report idioms and names that standard technical English does not use.

Usage: python tools/lint_language.py [FILE ...]   (default: all tracked files)

Comments, docstrings and messages of Python files are checked for idioms, assignments for names without content, tests
for `match=` patterns that repeat prose; in other text files every line is checked for idioms. A line that must quote
an idiom ends with the marker ``language: quoted``.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

MARKER = "language: quoted"
SUFFIXES = {".py", ".md", ".yaml", ".yml", ".js", ".html", ".toml", ".cff"}
EXEMPT = {"tools/lint_language.py", "tests/test_language.py"}

IDIOMS = {
    r"\bunless (it is )?said\b": "by default",
    r"\b(one's|her|his) own\b": "custom",
    r"\b(is|are|was|were|be|been|being) told\b": "receives, is notified, is reported",
    r"\btells?\b(?! (apart|git)\b)": "state, show, report, return",
    r"\btold\b": "reported, given, shown",
    r"\bso many\b": "a number of",
    r"\b(made|begin|begins|run|starts?|make|read|written) anew\b|\banew\b": "again, recomputed",
    r"\bnot (to be )?believed\b": "rejected, recomputed",
    r"\bdone without\b": "omitted, not available",
    r"\bby itself\b": "alone, automatically",
    r"\bplain way\b|\bcompiled equal\b": "NumPy version, numba version",
    r"\bgets? on\b(?! with)": "progress",
    r"\bgoes on\b|\bgo on\b": "continue, resume",
    r"\bfor want of\b": "without, if there is no",
    r"\bmay be chance\b": "not significant",
    r"\bcannot be told\b": "not significant, undecided",
    r"\bWho (has|is|cannot|wants|loses|had|does|sees|knows)\b": "name the subject",
    r"\bnought\b": "zero",
    r"\bwhat is there\b|\bis there already\b": "exists",
    r"\breach(es)? nobody\b": "never takes effect",
    r"\blast word\b": "final estimate",
    r"\bat once\b": "together, immediately",
    r"\bfound again\b": "restored, matched",
    r"\bthe other way round\b": "reversed, vice versa",
    r"\b(is|are|was|were) no (?!longer|more|less|fewer|later|earlier|worse|better|larger|smaller|need)[a-z]": "not a",
    r"\bherself\b|\bhimself\b|\b(she|he)\b": "they",
    r"\bmend(s|ed|ing)?\b": "correct, fix, repair",
    r"\bslips?\b": "mistake, error",
    r"\bthereof\b|\btherein\b|\bwhereof\b|\bhence\b": "plain wording",
    r"\bto be had\b|\bcan be had\b|\bcannot be had\b": "available",
    r"\bsay(s)? so\b": "report it",
    r"\bcomes? of\b|\bcame of\b": "results from",
    r"\bin (one's|its|their) turn\b": "then",
    r"\bwithout a word\b": "silently",
    r"\bin plain words\b": "readable",
}
"""Regular expressions of idioms and what to write instead."""

OPENINGS = re.compile(r"(What|Who|Whom|Whose|So many|That which|As of|Is told|Are told|Said|Told)\b")
"""First words that no docstring and no key description starts with."""

NAMES = {"said", "told", "found", "there", "called", "asked", "meant", "gone", "wanted", "thing", "things", "stuff"}
"""Names that do not describe the value."""

PROSE = re.compile(r"[a-z]{2,},? [a-z]{1,},? [a-z]{2,}")
"""Three lower-case words in a row: prose, not an identifier, a value or a code."""

Problem = tuple[int, str]


def idioms(text: str, first_line: int = 1) -> Iterator[Problem]:
    """Yield the idioms in a text."""
    for number, line in enumerate(text.split("\n"), first_line):
        if MARKER in line:
            continue
        for pattern, instead in IDIOMS.items():
            if match := re.search(pattern, line):
                yield number, f"{match[0]!r}: write {instead}"


def in_python(source: str, *, is_test: bool) -> Iterator[Problem]:
    """Yield the problems of a Python file."""
    quoted = {number for number, line in enumerate(source.split("\n"), 1) if MARKER in line}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) or token.type == getattr(tokenize, "FSTRING_MIDDLE", -1):
            yield from (problem for problem in idioms(token.string, token.start[0]) if problem[0] not in quoted)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMES:
            yield node.lineno, f"variable {node.id!r}: name the content"
        elif isinstance(node, ast.arg) and node.arg in NAMES:
            yield node.lineno, f"parameter {node.arg!r}: name the content"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            if match := OPENINGS.match(node.value.value):
                yield node.lineno, f"docstring starts with {match[0]!r}: start with a verb or a noun"
        elif is_test and isinstance(node, ast.keyword) and node.arg == "match":
            literals = [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
            if any(isinstance(literal, str) and PROSE.search(literal) for literal in literals):
                yield node.value.lineno, "match= repeats prose: match the type, the code or the parameter"


def problems(path: Path) -> list[Problem]:
    """Return the problems of a file in the order of its lines."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return sorted(set(in_python(text, is_test=path.parts[0] == "tests")))
    return list(idioms(text))


def main(arguments: list[str]) -> int:
    """Print all problems and return the exit code."""
    names = arguments or subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    files = [
        Path(name) for name in names if name not in EXEMPT and Path(name).suffix in SUFFIXES and Path(name).is_file()
    ]
    count = 0
    for path in files:
        for line, message in problems(path):
            print(f"{path}:{line}: {message}")
            count += 1
    print(f"language: {count or 'no'} problems in {len(files)} files")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
