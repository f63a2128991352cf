"""Remarks on a scenario: mechanisms without any protection or information on a grid, metrics that are not recorded.

`epsilon_per_km: 5000` is valid, but on cells of one kilometre the mechanism always reports the true cell; with
`epsilon_per_km: 1e-6` reports are independent of the cell. Both cases are computed from epsilon and the cell size, with
at most one row of the channel, so the check is fast for every grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from sim.lppm.designs.exponential import ExponentialParameters
from sim.lppm.designs.optimal_quality import OptimalQualityParameters
from sim.lppm.designs.phones.privacy_zone import PrivacyZoneParameters
from sim.lppm.designs.planar_geometric import PlanarGeometricParameters
from sim.lppm.designs.planar_laplace import PlanarLaplaceParameters
from sim.lppm.parameters import DesignParameters
from sim.scenario.lppms import LPPMSpec
from sim.scenario.models import Scenario
from sim.scenario.record import EXPECTED_CELLS
from sim.world.grid import Grid
from sim.world.locations import Locations

NEVER = 1e-6
"""A mechanism that reports another than the true cell with a smaller probability provides no protection."""
INDEPENDENT = 0.01
"""A mechanism whose epsilon times the diameter of the region is smaller provides no information."""
_LATTICE = 20
_MOST_VALUES = 4
_ON_THE_GROUND = ("manhattan", "euclidean")
_WITHOUT_GEOMETRY = ("matrix", "semantic", "service")
"""Distances that do not follow from positions, so that epsilon per km of them is compared with no length."""
_OF_OTHERS = ("others", "other_user", "other_users")
_DETOUR = 4.0
"""Assumed upper bound of the ratio of road distance to Manhattan distance."""


def remarks(scenarios: Iterable[Scenario]) -> list[str]:
    """Return a line for each LPPM and parameter that is implausible at a point of a sweep, and for missing metrics.

    Takes the scenario of each point (`sweep.points`); equal mechanisms on equal grids are evaluated once.
    """
    known: dict[tuple[str, str, str], list[tuple[str, str, float]]] = {}
    counts: dict[tuple[str, str, str], dict[float, int]] = {}
    number = unrecorded = 0
    disclosing: dict[str, None] = {}
    homeless: dict[str, None] = {}
    for scenario in scenarios:
        number += 1
        disclosing |= {lppm.name: None for lppm in scenario.lppms if lppm.learns_from == "disclosed_cells"}
        homeless |= {lppm.name: None for lppm in scenario.lppms if _home_of_others(lppm, scenario)}
        unrecorded += scenario.record.expected and not scenario.records_expected
        world = scenario.world.model_dump_json()
        for lppm in scenario.lppms:
            key = (lppm.name, world, lppm.design.model_dump_json())
            if key not in known:
                known[key] = list(_remarks_on(lppm.design, scenario))
            for parameter, text, value in known[key]:
                values = counts.setdefault((lppm.name, parameter, text), {})
                values[value] = values.get(value, 0) + 1
    notes = []
    if unrecorded:
        reason = f"the world has more than {EXPECTED_CELLS:,} cells"
        own = "nor the mechanisms' own metrics except the loss under Manhattan distances"
        notes.append(f"expected metrics are not recorded{_at(unrecorded, number)}, {own}: {reason}")
    notes += [
        f"{name} learns from disclosed cells, and no attack infers them from its channel: it is a ceiling only if past "
        "cells carry no information about the present one, as with `shuffle: true`; otherwise its adversary error may "
        "exceed its loss"
        for name in disclosing
    ]
    notes += [
        f"{name}: the zone surrounds the most visited cell of other people, with whose data it is trained: for the "
        "user's home, train it with `own_past` or `own_test`"
        for name in homeless
    ]
    return notes + [
        f"{name}: {parameter} {_listed(list(values))}{_at(sum(values.values()), number)}: {text}"
        for (name, parameter, text), values in counts.items()
    ]


def _home_of_others(lppm: LPPMSpec, scenario: Scenario) -> bool:
    """Return whether a privacy zone is trained with data of other people only."""
    name = lppm.training or next(iter(scenario.training), None)
    of_others = name is not None and scenario.training[name].kind in _OF_OTHERS
    return isinstance(lppm.design, PrivacyZoneParameters) and of_others


def _listed(values: list[float]) -> str:
    *some, last = [f"{value:g}" for value in values[:_MOST_VALUES]]
    if len(values) > _MOST_VALUES:
        some, last = [*some, last], f"{len(values) - _MOST_VALUES} more"
    return f"{', '.join(some)} and {last}" if some else last


def _at(points: int, of_points: int) -> str:
    return f" ({points} of {of_points} sweep points)" if points < of_points else ""


_WITH_EPSILON = ExponentialParameters | OptimalQualityParameters | PlanarGeometricParameters | PlanarLaplaceParameters


def _remarks_on(design: DesignParameters, scenario: Scenario) -> Iterator[tuple[str, str, float]]:
    """Yield parameter, problem and value of each implausible parameter."""
    budget_km = design.budget_km if design.realised_budget is None else design.realised_budget.realised
    kind = scenario.world.quality_distance.kind
    locations = scenario.build_locations()
    if isinstance(design, _WITH_EPSILON) and design.epsilon_per_km is not None:
        yield from _remarks_on_epsilon(design, design.epsilon_per_km, kind, locations)
    if budget_km is not None and kind in _ON_THE_GROUND and budget_km > (longest := _diameter_km(locations, kind)):
        text = f"larger than the largest distance between two cells, {longest:.3g} km: the mechanism cannot reach it"
        yield "quality_budget_km", text, budget_km
    if design.realised_budget is not None and (text := unresolved(design.realised_budget.realised, locations)):
        yield "quality_budget_km", text, design.realised_budget.realised
    yield from _remarks_on_step(design, locations)


def unresolved(distance_km: float, locations: Locations) -> str:
    """Return a remark on a loss or an error that is smaller than a cell, otherwise an empty text."""
    side_km = max(locations.cell_size_km)
    if distance_km >= side_km:
        return ""
    return (
        f"smaller than a cell ({1000 * side_km:.0f} m): distances within a cell count as 0, so that a few reports from "
        "other cells make up the mean; on a finer grid, other strengths and other mechanisms may be the result"
    )


def _remarks_on_step(design: DesignParameters, locations: Locations) -> Iterator[tuple[str, str, float]]:
    """Yield a remark if cells are larger than the steps of the mechanism's own grid."""
    needs_plane = design.needs_coordinates and locations.bounds is None  # reported as an error
    step = None if needs_plane else design.step(locations)
    if step is not None and max(locations.cell_size_km) > step[2]:
        name, value, step_km = step
        cell = " x ".join(f"{side:.3g}" for side in locations.cell_size_km)
        text = (
            f"cells of {cell} km are larger than the steps of the mechanism, {step_km:.3g} km: its effect cannot be "
            "represented; use smaller cells"
        )
        yield name, text, value


def _remarks_on_epsilon(
    design: Any, epsilon: float, kind: str, locations: Locations
) -> Iterator[tuple[str, str, float]]:
    width_km, height_km = locations.cell_size_km
    cell = f"{width_km:.3g} x {height_km:.3g} km"
    escape = escape_probability(design, epsilon, kind, locations)
    if escape is not None and escape < NEVER and locations.n_cells > 1:
        drawn = f"the true cell is drawn with probability above {1 - NEVER:g}"
        text = f"no protection before the remap, if any: on cells of {cell}, {drawn}"
        yield "epsilon_per_km", text, epsilon
    longest = _diameter_km(locations, "manhattan") * (1 if kind in _ON_THE_GROUND else _DETOUR)
    bounded = kind not in _WITHOUT_GEOMETRY or not isinstance(design, ExponentialParameters)
    if isinstance(design, ExponentialParameters) and design.reveal_probability > 0:
        bounded = False  # reports may be the true cell at any epsilon
    if 0 < epsilon * longest < INDEPENDENT and bounded:
        ratio = math.exp((2 if isinstance(design, ExponentialParameters) else 1) * epsilon * longest)
        text = (
            "almost no information in reports: in a region of "
            f"{locations.width_km:.3g} x {locations.height_km:.3g} km, "
            f"no report is more than {ratio:.6g} times as likely from one cell as from another"
        )
        yield "epsilon_per_km", text, epsilon


def escape_probability(design: Any, epsilon: float, kind: str, locations: Locations) -> float | None:
    """Return an upper bound of the probability to report another than the true cell, before the remap.

    The true cell is in the middle of the grid. An infinite lattice is cut off after twenty cells on each side; cells
    beyond do not matter for large epsilon. None if the probability does not follow from the geometry: for continuous
    outputs, for distances that are read from a file, and for locations other than the cells of a grid.
    """
    if not isinstance(locations, Grid):
        return None
    return _escape_on_grid(design, epsilon, kind, locations)


def _escape_on_grid(design: Any, epsilon: float, kind: str, grid: Grid) -> float | None:
    east, north = (np.arange(-_LATTICE, _LATTICE + 1) * side for side in grid.cell_size_km)
    match design:
        case ExponentialParameters() if kind in _WITHOUT_GEOMETRY:
            return None
        case ExponentialParameters():
            rows, cols = grid.rows // 2, grid.cols // 2
            east, north = grid.col_x_km - grid.col_x_km[cols], grid.row_y_km - grid.row_y_km[rows]
            return _elsewhere(epsilon, east, north, manhattan=kind == "manhattan")
        case PlanarGeometricParameters():
            return _elsewhere(epsilon, east, north, manhattan=design.metric == "manhattan")
        case OptimalQualityParameters():
            # The exponential mechanism with half the epsilon has the same guarantee, and no smaller loss.
            return _elsewhere(epsilon / 2, east, north, manhattan=False)
        case PlanarLaplaceParameters() if design.discretise:
            reach = epsilon * min(grid.cell_size_km) / 2
            return (1 + reach) * math.exp(-reach)
    return None


def _elsewhere(epsilon: float, east_km: Any, north_km: Any, *, manhattan: bool) -> float:
    """Return the share of the sum of exp(-epsilon d) over all cells that belongs to cells at distances d > 0."""
    across, up = np.abs(east_km)[None, :], np.abs(north_km)[:, None]
    distance_km = across + up if manhattan else np.hypot(across, up)
    others = float(np.exp(-epsilon * distance_km[distance_km > 0]).sum())
    return others / (1.0 + others)


def _diameter_km(locations: Locations, kind: str) -> float:
    """Return the largest distance in km between two locations along the axes, or an upper bound."""
    east, north = float(np.ptp(locations.x_km)), float(np.ptp(locations.y_km))
    return math.hypot(east, north) if kind == "euclidean" else east + north
