"""Budgets of quality loss that a run exceeded.

A `quality_budget_km` holds on the mechanism's own model: for users who live as it believes. Real users lose another
amount, sometimes several times as much.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from sim.analysis.summary import preferred
from sim.scenario.models import Scenario
from sim.storage.manifest import RunManifest

TOLERANCE = 0.05
"""An excess of less than this share of the budget is not reported."""
_CLEARLY, _MANY_QUERIES = 0.25, 100
"""Where there is no interval: the smallest relative excess, and the smallest number of queries, that are reported."""


def asked_km(scenario: Scenario) -> dict[str, float]:
    """Return the quality budget of each LPPM that has one."""
    budgets_km = {lppm.name: lppm.design.budget_km for lppm in scenario.lppms}
    return {name: budget_km for name, budget_km in budgets_km.items() if budget_km is not None}


def found_exceeded(points: Iterable[tuple[int, Scenario]], summary: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the LPPMs and points whose loss exceeds the budget by more than chance explains, worst first.

    Takes a summary of `with_spread`. The expected loss is free of the noise of reports: an excess of more than 5 % is
    one. A realised loss must have its interval above the budget, or below five users each user's own loss; a single
    value without an interval must be 25 % above it over 100 queries or more.
    """
    budgets = {(point, lppm): km for point, scenario in points for lppm, km in asked_km(scenario).items()}
    rows = summary.assign(loss=preferred(summary, "quality_loss_km"))
    found = []
    for row in rows.drop_duplicates(["point", "lppm"]).to_dict("records"):
        budget = budgets.get((row["point"], row["lppm"]))
        if budget is None or not row["loss"] > (1 + TOLERANCE) * budget:
            continue
        if pd.isna(row["expected_quality_loss_km"]) and not _is_beyond_chance(row, budget):
            continue
        found.append(
            {"point": row["point"], "lppm": row["lppm"], "asked_km": budget, "realised_km": round(row["loss"], 6)}
        )
    return sorted(found, key=lambda one: one["asked_km"] / one["realised_km"])


def _is_beyond_chance(row: dict[Any, Any], budget_km: float) -> bool:
    low = row["quality_loss_km_low"]
    if pd.notna(low):
        return bool(low > budget_km)
    return bool(row["loss"] > (1 + _CLEARLY) * budget_km and row["queries"] >= _MANY_QUERIES)


def exceeded(manifest: RunManifest) -> set[tuple[int, str]]:
    """Return the points and LPPMs of a manifest whose budgets were exceeded."""
    return {(budget.point, budget.lppm) for budget in manifest.exceeded_budgets}
