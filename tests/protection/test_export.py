"""Exported mechanisms: the table is the channel, and readers agree with the simulator."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from sim.lppm.designs.exponential import ExponentialParameters
from sim.protection import export, table
from sim.protection.table import TOTAL, quantised, table_of
from tests.protection.streams import REGION
from tests.support import done, raises_code, refused

if TYPE_CHECKING:
    from playwright.sync_api import Page

PROFILE = np.random.default_rng(2).dirichlet(np.ones(20))
MECHANISMS: dict[str, Any] = {
    "product": {"kind": "SP-Exp", "design": {"remap": False}},
    "remapped product": "SP-Exp",
    "rows": {"kind": "SP-PL", "design": {"remap": False}},
    "remapped rows": "SP-PL",
    "hiding": {"kind": "SP-LH", "design": {"remap": False}},
    "mix": "SP-Mix",
    "snapping": "Snap",
    "nothing": "Drop",
    "regions": {"kind": "SP-Cloak", "design": {"k": 100}},
    "sets": {"name": "sets", "belief": "fixed_profile", "design": {"kind": "dummies", "dummies": 1}},
    "PEB, but the design ignores it": {"kind": "PEB-PL", "design": {"remap": False}},
}
READER = files("sim.protection").joinpath("reader.js").read_text()
CHECK = """
function check(mechanism, outputs) {
  const { positions, draws, edges } = mechanism.data.vectors;
  const wrong = positions.filter(([lat, lon, cell]) => mechanism.cellOf(lat, lon) !== cell);
  for (const one of [...draws, ...edges]) if (mechanism.draw(one[0], one[1]) !== one[2]) wrong.push(one);
  const counts = new Array(outputs).fill(0);
  for (let i = 0; i < 3000; i++) counts[mechanism.draw(7)]++;
  const meanings = counts.map((_, output) => mechanism.meaning(output));
  return { wrong, checked: positions.length + draws.length + edges.length, counts, meanings,
           outside: mechanism.report(0, 0) };
}
"""


@pytest.fixture(scope="module", params=list(MECHANISMS))
def case(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Any]:
    """Return an exported mechanism, as read from its JSON, and the channel in the simulator."""
    lppm = MECHANISMS[request.param]
    data = sim.export_mechanism(lppm, world=REGION, training=PROFILE)
    mechanism = sim.make_lppm(lppm, world=sim.make_world(REGION["grid"]), training=PROFILE)
    return json.loads(json.dumps(data, allow_nan=False)), mechanism.channel(0)


def rows(data: dict[str, Any]) -> np.ndarray:
    """Return the probabilities of a table, computed from the JSON alone."""
    grid, stored = data["grid"], data["table"]

    def dense(row: dict[str, Any], size: int) -> np.ndarray:
        full = np.zeros(size)
        full[row["outputs"]] = np.diff([0, *row["cumulative"]]) / 2 ** data["bits"]
        return full

    if stored["kind"] == "product":
        factors = [np.array([dense(row, grid[size]) for row in stored[size]]) for size in ("rows", "cols")]
        full = np.kron(*factors)
    else:
        size = 1 + max(max(row["outputs"]) for row in stored["rows"])
        full = np.array([dense(row, size) for row in stored["rows"]])
    if stored["remap"] is not None:
        full = full @ np.eye(full.shape[1])[stored["remap"]]
    return full


def test_table_is_the_channel(case: tuple[dict[str, Any], Any]) -> None:
    data, channel = case
    received, exact = rows(data), channel.matrix()
    exact, beyond = exact[:, : received.shape[1]], exact[:, received.shape[1] :]
    assert not beyond.any()
    error = np.abs(received - exact)
    assert error.max() < 20 * data["error"]["bound"]  # a remap adds the errors of the outputs that it merges
    assert error.max() <= data["error"]["largest_difference"] + 1e-15
    assert data["error"]["largest_total_variation"] < 1e-12
    assert ((received > 0) == (exact > 0)).all()
    np.testing.assert_array_equal(data["prior"], PROFILE)
    epsilons = [data["error"][f"epsilon_per_km_{name}"] for name in ("simulator", "table")]
    assert epsilons[0] is epsilons[1] is None or math.isclose(*epsilons, rel_tol=1e-6)


def test_vectors_are_those_of_the_simulator(case: tuple[dict[str, Any], Any]) -> None:
    data, channel = case
    vectors = data["vectors"]
    assert len(vectors["draws"]) >= 299  # an edge within rounding may be left out
    assert all(export.simulated(channel, cell, numbers) == output for cell, numbers, output in vectors["draws"])
    grid = sim.make_world(REGION["grid"]).grid
    for lat, lon, cell in vectors["positions"]:
        assert grid.cell_of(lat, lon) == cell
    assert {cell >= 0 for _, _, cell in vectors["positions"]} == {True, False}
    assert len(vectors["edges"]) == 200


def check(received: dict[str, Any], data: dict[str, Any], channel: Any) -> None:
    """Check what a reader in JavaScript received."""
    assert received["wrong"] == []
    assert received["checked"] > 650
    assert received["outside"] is None
    expected = 3000 * channel.row(7)
    counts = np.array(received["counts"])
    assert not counts[expected == 0].any()
    possible = expected > 0
    chi_squared = ((counts[possible] - expected[possible]) ** 2 / expected[possible]).sum()
    assert chi_squared < possible.sum() + 12 * math.sqrt(possible.sum())  # drawn without a seed
    space = data["outputs"]
    if space["places"] is None:
        assert received["meanings"][19]["place"] == [data["grid"]["row_lat"][3], data["grid"]["col_lon"][4]]
    else:
        assert [[entry["place"], entry["cells"]] for entry in received["meanings"]] == space["places"]
    if space["nothing"] is not None:
        assert received["meanings"][space["nothing"]] == {"output": space["nothing"], "place": None, "cells": []}


def test_reader_agrees_in_the_browser(case: tuple[dict[str, Any], Any], browser_page: Page) -> None:
    data, channel = case
    browser_page.goto("about:blank")
    browser_page.add_script_tag(
        content=f"{READER}\n{CHECK}\nObject.assign(window, {{Mechanism, check}});", type="module"
    )
    browser_page.wait_for_function("window.check !== undefined")
    received = browser_page.evaluate("([data, count]) => check(new Mechanism(data), count)", [data, channel.n_outputs])
    check(received, data, channel)


def test_reader_agrees_in_node(case: tuple[dict[str, Any], Any], tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node found")
    data, channel = case
    (tmp_path / "reader.mjs").write_text(READER)
    (tmp_path / "data.json").write_text(json.dumps(data))
    (tmp_path / "main.mjs").write_text(
        'import {readFileSync} from "node:fs";\nimport {webcrypto} from "node:crypto";\n'
        f'import {{Mechanism}} from "./reader.mjs";\nglobalThis.crypto ??= webcrypto;\n{CHECK}\n'
        'const data = JSON.parse(readFileSync("data.json", "utf8"));\n'
        f"console.log(JSON.stringify(check(new Mechanism(data), {channel.n_outputs})));\n"
    )
    process = subprocess.run([node, "main.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 0, process.stderr
    check(json.loads(process.stdout), data, channel)


@settings(deadline=None)
@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-300, 1e3)), min_size=1, max_size=60).filter(any))
def test_weights_are_within_one_of_the_probabilities(weights: list[float]) -> None:
    probabilities = np.array(weights) / sum(weights)
    row = quantised(probabilities)
    assert row.outputs == np.flatnonzero(probabilities).tolist()
    stored = np.diff([0, *row.cumulative])
    assert row.cumulative[-1] == TOTAL
    assert stored.min() >= 1
    exact = [Fraction(float(value)) * TOTAL for value in probabilities[row.outputs]]
    errors = [abs(int(weight) - value) for weight, value in zip(stored, exact, strict=True)]
    *others, largest = sorted(errors)
    assert max(others, default=0) <= 1
    assert largest <= max(1, row.n_least) + TOTAL * 2.0**-50


@pytest.mark.parametrize("epsilon_per_km", [1.0, 2.0, 5.0, 20.0])
def test_table_is_within_its_bound(epsilon_per_km: float) -> None:
    """At a large epsilon, many probabilities are raised to one weight, and the largest takes their sum."""
    world = sim.make_world("san_francisco")
    n_cells = world.grid.n_cells
    design = ExponentialParameters(epsilon_per_km=epsilon_per_km, remap=False).build(world)
    channel = design(np.full(n_cells, 1 / n_cells))
    exported = table_of(channel, n_cells, world.grid.cols)
    errors = [np.abs(exported.row(cell, n_cells) - channel.row(cell)).max() for cell in range(n_cells)]
    assert max(errors) <= exported.bound
    assert bool(max(errors) > 2.0**-46) is (epsilon_per_km >= 5)


def test_large_product_is_small_and_large_matrix_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = REGION["grid"] | {"rows": 60, "cols": 50}
    data = sim.export_mechanism("SP-Exp", world={"grid": grid})
    assert len(json.dumps(data)) < 800_000
    assert data["table"]["kind"] == "product"
    monkeypatch.setattr(table, "MOST_WEIGHTS", 399)
    with raises_code(sim.InputError, "table-too-large"):
        sim.export_mechanism("SP-PL", world=REGION)


@pytest.mark.parametrize(
    ("lppm", "code"),
    [
        ("PEB-Exp", "mechanism-learns"),
        ("MK-Exp", "mechanism-learns"),
        ({"name": "n", "belief": "home", "design": "exponential"}, "mechanism-learns"),
        ({"kind": "SP-PL", "design": {"discretise": False}}, "outputs-not-listed"),
    ],
    ids=str,
)
def test_mechanisms_without_a_table_are_refused(lppm: Any, code: str) -> None:
    with raises_code(sim.InputError, code):
        sim.export_mechanism(lppm, world=REGION)


def test_command_writes_mechanism_and_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("export-mechanism", "--lppm", "SP-Exp", "--grid", json.dumps(REGION["grid"]))
    printed = done(*arguments, "--set", "design.epsilon_per_km=2", "-o", "m.json", "--reader", "reader.js")
    assert printed == "wrote m.json\nwrote reader.js\n"
    assert json.loads(Path("m.json").read_text()) == json.loads(
        json.dumps(sim.export_mechanism("SP-Exp", world=REGION, settings={"design.epsilon_per_km": 2}))
    )
    assert Path("reader.js").read_text() == READER
    assert "[file-exists]" in refused(*arguments, "-o", "m.json")
    assert "[mechanism-learns]" in refused(*arguments, "--lppm", "PEB-Exp", "-o", "p.json")
    assert "[missing-option]" in refused("export-mechanism", "--lppm", "SP-Exp", "-o", "p.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.json", "reader.js"]
