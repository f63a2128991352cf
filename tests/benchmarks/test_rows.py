"""Rows: each gives values, and the targets are those of the project."""

from __future__ import annotations

import math
import sys

import pytest

from benchmarks import measuring, scale, timing
from benchmarks.measuring import measure
from benchmarks.people import DESIGNS, City
from benchmarks.rows import ROWS
from benchmarks.targets import Row
from tests.benchmarks.support import NAMES, TINY

pytestmark = pytest.mark.usefixtures("plain_kernels", "fork_server")

SWEEPS = {"simulation", "chunk-here", "chunk-workers", "chunk-dask", "workers", "driver", "estimate", "replay"}


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_every_row_gives_values(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    if row.name == "checkins":
        pytest.skip("compiles and runs the package of an earlier commit, which takes minutes")
    monkeypatch.setattr(timing, "BLOCK_S", 1e-5)
    monkeypatch.setattr(measuring, "warm_up", lambda: None)
    (outcome,) = measure([row], TINY)
    if row.name in {"qif", "replay"} and outcome.met is None:  # needs a package or a browser
        pytest.skip(outcome.note)
    assert outcome.measured is not None
    assert outcome.limit is not None
    assert outcome.ratio is not None
    assert math.isfinite(outcome.measured)
    assert outcome.limit > 0
    if row.unit != "exponent":  # the cost of few queries may decrease
        assert outcome.measured > 0
        assert outcome.ratio > 0
    inverted = row.direction == "at_least"
    assert outcome.ratio == (outcome.limit / outcome.measured if inverted else outcome.measured / outcome.limit)
    assert outcome.met == (outcome.ratio >= row.target if inverted else outcome.ratio <= row.target)
    if row.name not in SWEEPS | {"memory", "optimal"} and not row.name.startswith(("street-", "city-", "checkins")):
        assert outcome.samples.keys() == DESIGNS.keys()


def test_the_rows_are_the_targets_of_the_project() -> None:
    targets = {row.name: ("<=" if row.direction == "at_most" else ">=", row.target) for row in ROWS}
    assert targets == {
        "peb": ("<=", 12),
        "peb-expected": ("<=", 24),
        "peb-large": ("<=", 12),
        "mk": ("<=", 12),
        "mk-expected": ("<=", 24),
        "peb-mk": ("<=", 3),
        "sp": ("<=", 10),
        "remap": (">=", 30),
        "peb-run": (">=", 100),
        "qif": (">=", 50),
        "optimal": ("<=", 1),
        "memory": ("<=", 1.2),
        "growth": ("<=", 1.1),
        "simulation": ("<=", 0.5),
        "chunk-here": ("<=", 0.05),
        "chunk-workers": ("<=", 0.05),
        "chunk-dask": ("<=", 0.05),
        "workers": (">=", 1.8),
        "estimate": ("<=", 10),
        "replay": ("<=", 1),
        "street-growth-recursive": ("<=", 1.15),
        "street-growth-peb": ("<=", 1.15),
        "street-peb": ("<=", 4),
        "street-memory": ("<=", 0.15),
        "street-markov": ("<=", 3),
        "street-run": ("<=", 1),
        "street-run-memory": ("<=", 1),
        "city-cost": ("<=", 1.2),
        "city-memory": ("<=", 1.5),
        "city-dask": (">=", 1.85),
        "checkins": (">=", 2.5),
        "driver": ("<=", 1.5),
    }


def test_the_work_is_that_of_the_targets() -> None:
    for work in (scale.FULL, scale.QUICK):
        assert (City(work.shape).n_cells, work.large_shape, work.queries) == (250, (50, 50), 300)
        assert (work.agents, work.agent_queries) == (1000, 288)
        assert work.designs == tuple(DESIGNS)
    assert scale.FULL.memory_users == 1000
    assert scale.FULL.simulations == 100_000
    assert scale.FULL.optimal_shape == (10, 10)
    assert scale.FULL.lengths[-1] == 3000
    assert [rows * cols for rows, cols in scale.FULL.street_shapes] == [250, 2528, 8400, 33600]
    assert (scale.FULL.street_run_users, scale.FULL.street_run_queries) == (20, 100)
    assert scale.FULL.long_designs == tuple(DESIGNS)


def test_qif_is_skipped_if_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qif", None)
    (outcome,) = measure([row for row in ROWS if row.name == "qif"], TINY)
    assert (outcome.measured, outcome.ratio, outcome.met) == (None, None, None)
    assert outcome.note.startswith("skipped: ")
    assert "pip install qif" in outcome.note
