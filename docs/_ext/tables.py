"""Tables of the reference and of the performance page, as Markdown."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from table_columns import COLUMNS

from sim import interfaces
from sim.analysis.metrics import METRICS
from sim.scenario.reference import listing
from sim.storage import event_schema

BENCHMARK = Path(__file__).parents[1] / "benchmark.json"
"""JSON file that `make bench ARGS="-o docs/benchmark.json"` writes."""


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; columns whose heading ends with a colon are aligned right."""
    aligned = ["--:" if heading.endswith(":") else "---" for heading in headings]
    names = [heading.removesuffix(":") for heading in headings]
    lines = [names, aligned, *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def short_names() -> str:
    """Return the short names of mechanisms and attacks."""
    families = listing()
    parts = []
    for family, heading in (("lppm", "Mechanisms"), ("attack", "Attacks")):
        rows = [(f"`{name}`", meaning) for name, meaning in families[family][1].items() if ":" not in name]
        parts += [f"### {heading}\n", markdown_table(("name", "meaning"), rows)]
    return "\n".join(parts)


def event_columns() -> str:
    """Return the columns of the event log."""
    return markdown_table(
        ("column", "type", "unit", "always set", "since schema", "meaning"),
        (
            (
                f"`{column.name}`",
                str(column.type),
                column.unit,
                "yes" if column.required else "",
                str(column.since),
                column.description,
            )
            for column in event_schema.COLUMNS
        ),
    )


def table_columns(name: str) -> str:
    """Return the columns of one CSV file of a run directory."""
    return markdown_table(("column", "meaning"), ((f"`{column}`", text) for column, text in COLUMNS[name].items()))


def metrics() -> str:
    """Return the columns of `metrics.csv` with their headings in tables."""
    return markdown_table(
        ("column of `metrics.csv`", "heading", "meaning"),
        ((f"`{name}`", metric.heading, metric.description) for name, metric in METRICS.items()),
    )


def capabilities() -> str:
    """Return the optional attributes of components as `sim.interfaces` declares them."""
    rows = []
    for node in ast.parse(inspect.getsource(interfaces)).body:
        if isinstance(node, ast.ClassDef) and node.name.endswith("Capabilities"):
            rows += _capabilities_of(node)
    return markdown_table(("name", "family", "default", "meaning"), rows)


def _capabilities_of(declaration: ast.ClassDef) -> list[tuple[str, ...]]:
    family = declaration.name.removesuffix("Capabilities").lower()
    rows = []
    for statement, following in itertools.pairwise(declaration.body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            default = vars(getattr(interfaces, declaration.name))[name].default
            shown = repr(default() if callable(default) else default)
            meaning = ast.literal_eval(following.value) if isinstance(following, ast.Expr) else ""
            rows.append((f"`{name}`", family, f"`{shown}`", " ".join(meaning.split())))
    return rows


def benchmark(argument: str) -> str:
    """Return rows of the benchmark: those named, or all."""
    document = json.loads(BENCHMARK.read_text(encoding="utf-8"))
    names = argument.split()
    rows = {row["name"]: row for row in document["rows"]}
    if unknown := set(names) - rows.keys():
        raise KeyError(f"{BENCHMARK.name} has no rows {', '.join(sorted(unknown))}")
    return markdown_table(
        ("row", "quantity", "measured:", "limit:", "ratio:", "target:", "met"),
        (_benchmark_row(rows[name]) for name in names or rows),
    )


def benchmark_comparison() -> str:
    """Return the ratios of the benchmark with numba and with NumPy only."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in (BENCHMARK, _plain())]
    compiled, plain = ({row["name"]: row for row in document["rows"]} for document in documents)
    return markdown_table(
        ("row", "numba:", "NumPy:", "target:"),
        (
            (f"`{name}`", _ratio(compiled[name]), _ratio(row), _target(row))
            for name, row in plain.items()
            if name in compiled
        ),
    )


def _plain() -> Path:
    return BENCHMARK.with_name("benchmark_plain.json")


def _ratio(row: dict[str, Any]) -> str:
    if row["ratio"] is None:
        return ""
    return _times(row["ratio"]) + (" (missed)" if row["met"] is False else "")


def _target(row: dict[str, Any]) -> str:
    return f"{'≤' if row['direction'] == 'at_most' else '≥'} {row['target']:g}×"


def _benchmark_row(row: dict[str, Any]) -> tuple[str, ...]:
    measured, limit = (_amount(row[key], row["unit"]) for key in ("measured", "limit"))
    ratio = "" if row["ratio"] is None else _times(row["ratio"])
    met = {True: "yes", False: "no", None: "skipped"}[row["met"]]
    return f"`{row['name']}`", row["what"], measured, limit, ratio, _target(row), met


def _amount(value: float | None, unit: str) -> str:
    from benchmarks.output import amount

    return "" if value is None else amount(value, unit).replace("us", "µs").replace(" ", "\u00a0")


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}×" if ratio >= 100 else f"{ratio:.3g}×"


def benchmark_machine() -> str:
    """Return a sentence on the machine of the benchmark."""
    document = json.loads(BENCHMARK.read_text(encoding="utf-8"))
    machine = document["machine"]
    size = "a quick run" if document["quick"] else "a full run"
    return (
        f"Measured by {size} on {machine['cpu']} ({machine['cores']} cores), Python {machine['python']}, "
        f"NumPy {machine['numpy']}, BLAS threads: {machine['blas_threads']}, kernels: {machine['kernels']}.\n"
    )
