"""Components of an installed package appear and run like shipped ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

MODULE = '''
"""Components of a test package."""

from typing import ClassVar, Literal

import numpy as np

from sim.attack.parameters import AttackContext, AttackParameters
from sim.belief.parameters import BeliefParameters
from sim.components.registry import component
from sim.components.spec import Positive
from sim.events import Guess
from sim.lppm.channels.exponential import exponential
from sim.lppm.parameters import DesignParameters, ShortNames


@component("belief")
class EvenParameters(BeliefParameters):
    """Uniform prior over all cells."""

    memoryless: ClassVar = True
    kind: Literal["even"] = "even"

    def build(self, statistics, restart_s, world):
        return Even(statistics.n_cells)


class Even:
    fixed = True

    def __init__(self, n_cells):
        self._prior = np.full(n_cells, 1 / n_cells)

    def prior(self, time_s):
        return self._prior

    def observe(self, time_s, likelihood):
        return likelihood / likelihood.sum()


@component("design")
class BlurParameters(DesignParameters):
    """Blurs the cell."""

    short_names: ClassVar = ShortNames(design="Blur", beliefs=("SP",))
    kind: Literal["blur"] = "blur"
    width_km: Positive = 2.0
    """Width of the blur."""

    def build(self, world):
        return Blur(exponential(world.quality_distance, 1 / self.width_km))


class Blur:
    uses_prior = False

    def __init__(self, channel):
        self._channel = channel

    def __call__(self, prior):
        return self._channel


@component("attack")
class CentreParameters(AttackParameters):
    """Always estimates the same cell."""

    kind: Literal["centre"] = "centre"

    def build(self, context: AttackContext):
        return Centre(context.world.n_cells // 2)


class Centre:
    def __init__(self, cell):
        self._cell = cell

    def observe(self, report):
        return Guess(report.user, report.index, self._cell)
'''

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "lppm-blur"
version = "1.0"

[project.entry-points."lppm_sim.components"]
blur = "lppm_blur"

[tool.hatch.build.targets.wheel]
include = ["lppm_blur.py"]
"""

SCENARIO = """
replications: 1
world: {grid: {kind: rectangle, rows: 3, cols: 4, width_km: 4, height_km: 3}}
users: {count: 2, queries: 5, mobility: favourites}
training: {others: {kind: others, count: 3, queries: 5}}
lppms:
  - {name: mine, belief: even, design: {kind: blur, width_km: 1.5}}
  - SP-Blur
attacks: [sporadic, {kind: centre, name: centre}]
"""

DRIVER = """
import json, sys
from click.testing import CliRunner
from sim.cli import main
results = {}
for arguments in json.loads(sys.argv[1]):
    result = CliRunner().invoke(main, arguments)
    results[" ".join(arguments)] = [result.exit_code, result.output]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package as a wheel and install it into a separate folder."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    source.mkdir()
    (source / "lppm_blur.py").write_text(MODULE)
    (source / "pyproject.toml").write_text(PROJECT)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", folder / "site", source], check=True, timeout=240)
    return folder


def run_commands(installed: Path, *commands: list[str]) -> dict[str, Any]:
    """Return exit code and output of some commands, run in a process that has the package."""
    path = {"PYTHONPATH": f"{installed / 'site'}:{ROOT}", "LPPM_SIM_KERNELS": "plain", "COLUMNS": "200"}
    arguments = [sys.executable, "-c", DRIVER, json.dumps(commands)]
    done = subprocess.run(arguments, env=path, cwd=installed, capture_output=True, text=True, check=True, timeout=240)
    results: dict[str, Any] = json.loads(done.stdout)
    return results


def test_components_of_a_package_are_listed_checked_and_run(installed: Path) -> None:
    (installed / "mine.yaml").write_text(SCENARIO)
    results = run_commands(
        installed,
        ["list"],
        ["list", "design", "blur"],
        ["schema"],
        ["check-component", "even"],
        ["check-component", "blur", "--set", "width_km=0.5"],
        ["check-component", "centre"],
        ["check-component", "blur", "--set", "width_km=-1"],
        ["check", "mine.yaml", "--no-time"],
        ["run", "mine.yaml", "-o", "run", "--no-figures"],
    )
    failed = {command: result for command, result in results.items() if result[0] != 0}
    assert list(failed) == ["check-component blur --set width_km=-1"]
    assert "width_km" in failed["check-component blur --set width_km=-1"][1]
    listing = results["list"][1]
    for line in ("Uniform prior over all cells.", "Blurs the cell.", "Always estimates the same cell.", "SP-Blur"):
        assert line in listing
    assert "Width of the blur." in results["list design blur"][1]
    schema = json.loads(results["schema"][1])
    assert {"EvenParameters", "BlurParameters", "CentreParameters"} <= schema["$defs"].keys()
    assert "4 of 4 checks passed" in results["check-component centre"][1]
    summary = (installed / "run" / "summary.csv").read_text()
    assert all(name in summary for name in ("mine", "SP-Blur", "centre"))


def test_package_that_cannot_be_imported_is_reported_by_name(tmp_path: Path) -> None:
    site = tmp_path / "site" / "broken-1.0.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (site / "entry_points.txt").write_text("[lppm_sim.components]\nnothing = no_such_module\n")
    (exit_code, output) = run_commands(tmp_path, ["list"])["list"]
    assert exit_code == 2
    assert "components of broken" in output
    assert "nothing = no_such_module" in output
