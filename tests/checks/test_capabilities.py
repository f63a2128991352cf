"""Optional capabilities are documented where `sim.interfaces` declares them, and used by declaration only."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sim import interfaces
from sim.interfaces import Capability

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "sim"


def rows() -> list[str]:
    """Return a row of the table for each declared capability, in the order of declaration."""
    tree = ast.parse(inspect.getsource(interfaces))
    declarations = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name.endswith("Capabilities")]
    return [row for declaration in declarations for row in rows_of(declaration)]


def rows_of(declaration: ast.ClassDef) -> list[str]:
    family = declaration.name.removesuffix("Capabilities").lower()
    body = declaration.body
    result = []
    for statement, following in itertools.pairwise(body):
        if isinstance(statement, ast.AnnAssign):
            assert isinstance(statement.target, ast.Name)
            capability = vars(vars(interfaces)[declaration.name])[statement.target.id]
            assert isinstance(capability, Capability)
            assert isinstance(following, ast.Expr), f"{capability.name} has no docstring"
            meaning = " ".join(ast.literal_eval(following.value).split())
            result.append(f"| `{capability.name}` | {family} | `{default(capability)}` | {meaning} |")
    return result


def names() -> set[str]:
    return {row.split("`")[1] for row in rows()}


def default(capability: Capability[Any, Any]) -> str:
    value = capability.default
    return repr(value() if callable(value) else value)


def test_every_capability_is_documented() -> None:
    assert all(row.rstrip(" |").endswith(".") for row in rows())


def test_no_module_reads_a_capability_by_getattr() -> None:
    assert [(file.name, name) for file in SOURCES.rglob("*.py") for name in discovered(file) if name in names()] == []


def discovered(file: Path) -> Iterator[str]:
    """Yield the literal names that a module passes to `getattr` and `hasattr`."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            yield from (
                each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
            )


def test_capability_is_the_attribute_or_the_default() -> None:
    class Fixed:
        fixed = True

    belief: Any = Fixed()
    assert interfaces.BeliefCapabilities.fixed.of(belief) is True
    assert interfaces.BeliefCapabilities.worst_gap.of(belief) is None
    attack: Any = object()
    assert list(interfaces.AttackCapabilities.conclude.of(attack)()) == []
