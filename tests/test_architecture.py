"""Imports point downwards only: data flow one way, from the scenario to the figures."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

LAYERS = [
    ["sim.archives", "sim.errors", "sim.events", "sim.interfaces", "sim.interrupts", "sim.manifest", "sim.rng"],
    ["sim.terminal", "sim.ties"],
    ["sim.compiled", "sim.kernels"],
    ["sim.inference", "sim.estimate", "sim.hindsight"],
    ["sim.world"],
    ["sim.mobility", "sim.belief", "sim.lppm"],
    ["sim.scenario"],
    ["sim.attack", "sim.stream", "sim.storage", "sim.parts", "sim.rundir", "sim.registry"],
    ["sim.recorder", "sim.build", "sim.shifting"],
    ["sim.agents", "sim.engine", "sim.stage", "sim.sweep", "sim.checks"],
    ["sim.chunks", "sim.tally"],
    ["sim.pool"],
    ["sim.cluster"],
    ["sim.bounded", "sim.footprint", "sim.probe"],
    [
        *("sim.analysis", "sim.adaptation", "sim.budgets", "sim.courses", "sim.export", "sim.metrics"),
        *("sim.cost", "sim.past_error", "sim.plausibility", "sim.spread"),
    ],
    ["sim.status"],
    ["sim.plots", "sim.result", "sim.ranking", "sim.rounds", "sim.tournament"],
    ["sim.sentences"],
    ["sim.report"],
    ["sim.runner"],
    ["sim.bench", "sim.console", "sim.watch"],
    ["sim.datasets", "sim.paper"],
    ["sim.cli"],
]
"""From the bottom to the top; modules of one layer may import each other but not in a circle."""


def layer(module: str) -> int:
    for height, names in enumerate(LAYERS):
        if any(module == name or module.startswith(f"{name}.") for name in names):
            return height
    raise AssertionError(f"{module} has no place in the architecture: add it to LAYERS")


def imports(path: Path) -> set[str]:
    """Return the modules of this package that a file imports, wherever in it, but for type checking alone."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body.clear()
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "sim":
            module = ROOT.joinpath(*node.module.split("."))
            for alias in node.names:
                below = module / f"{alias.name}.py"
                found.add(
                    f"{node.module}.{alias.name}" if below.exists() or (module / alias.name).is_dir() else node.module
                )
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "sim"}
    return found


def modules() -> dict[str, Path]:
    paths = sorted((ROOT / "sim").rglob("*.py"))
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}
    names.pop("sim")
    return names


def test_imports_point_downwards() -> None:
    wrong = [
        f"{module} imports {other}"
        for module, path in modules().items()
        for other in imports(path)
        if layer(other) > layer(module)
    ]
    assert wrong == []


def test_the_mathematics_knows_nothing_of_the_simulator() -> None:
    for module in ("sim.inference", "sim.estimate", "sim.hindsight"):
        allowed = {"sim.interfaces", "sim.ties", "sim.kernels", "sim.inference", "sim.estimate"}
        assert imports(modules()[module]) <= allowed


def test_nothing_heavy_is_imported_by_the_bare_package_or_the_command_line() -> None:
    heavy = ("numpy", "pandas", "scipy", "matplotlib", "pydantic")
    script = f"import sim, sim.cli, sys; print([name for name in {heavy} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert out.stdout.strip() == "[]"
