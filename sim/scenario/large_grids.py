"""Requests that a large grid rules out, found on the validated scenario before anything is built."""

from __future__ import annotations

from collections.abc import Iterator

from sim.components.wording import listing
from sim.inference.dense import DENSE_BYTES, dense_bytes
from sim.lppm.designs.exponential import ExponentialParameters
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import Finding
from sim.scenario.record import EXPECTED_CELLS

_WITHOUT_MATRIX = ("manhattan", "euclidean")


def large_grid_findings(scenario: Scenario) -> Iterator[Finding]:
    """Yield the requests that need a number for each pair of cells of a large grid, with the place of their cause."""
    yield from _expected_metrics(scenario)
    yield from _exponential_designs(scenario)


def _expected_metrics(scenario: Scenario) -> Iterator[Finding]:
    """Find expected metrics that the scenario requests explicitly; as a default they are omitted with a remark."""
    record = scenario.record
    if record.expected and "expected" in record.model_fields_set and not scenario.records_expected:
        message = (
            f"expected metrics need the estimates for all outputs, so they are recorded on grids with at most "
            f"{EXPECTED_CELLS:,} cells, found {scenario.n_cells:,}: use larger cells, or remove `expected: "
            "true` to record sampled metrics only"
        )
        yield Finding(("record", "expected"), message, "expected-needs-small-grid")


def _exponential_designs(scenario: Scenario) -> Iterator[Finding]:
    """Find exponential designs under a quality distance without structure, which need a matrix of all distances."""
    kind, n_cells = scenario.world.quality_distance.kind, scenario.n_cells
    names = [lppm.name for lppm in scenario.lppms if isinstance(lppm.design, ExponentialParameters)]
    if names and kind not in _WITHOUT_MATRIX and dense_bytes(n_cells) > DENSE_BYTES:
        message = (
            f"the exponential design of {listing(names, 'and')} needs the {kind} distances between all pairs of "
            f"{n_cells:,} cells, {dense_bytes(n_cells) / 1e9:,.1f} GB, allowed is {DENSE_BYTES / 1e9:g} GB: use "
            f"`quality_distance: manhattan` or `euclidean` (`privacy_distance` may stay {kind}), the design "
            "location_hiding, or larger cells"
        )
        yield Finding(("world", "quality_distance"), message, "matrix-too-large")
