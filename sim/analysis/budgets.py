"""Quality budgets exceeded by a run.

A `quality_budget_km` bounds the expected loss under the mechanism's own model. Users who do not follow that model may
lose more, sometimes several times as much.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from sim.analysis.summary import preferred
from sim.scenario.models import Scenario
from sim.storage.manifest import RunManifest

TOLERANCE = 0.05
"""Relative excess over a budget below which nothing is reported."""
_CLEARLY, _MANY_QUERIES = 0.25, 100
"""Smallest relative excess and smallest number of queries that are reported without a confidence interval."""


def quality_budgets_km(scenario: Scenario) -> dict[str, float]:
    """Return the quality budget of each LPPM that has one."""
    budgets_km = {lppm.name: lppm.design.budget_km for lppm in scenario.lppms}
    return {name: budget_km for name, budget_km in budgets_km.items() if budget_km is not None}


def exceeded_budgets(points: Iterable[tuple[int, Scenario]], summary: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the LPPMs and points whose loss significantly exceeds the budget, largest relative excess first.

    `summary` is a summary with the columns of `with_spread`. An expected loss has no sampling noise of the reports: an
    excess of more than 5 % counts. For a realised loss, the lower confidence limit must be above the budget (with fewer
    than five users, the loss of every user). A loss without an interval must be 25 % above the budget over at least 100
    queries.
    """
    budgets = {(point, lppm): km for point, scenario in points for lppm, km in quality_budgets_km(scenario).items()}
    rows = summary.assign(loss=preferred(summary, "quality_loss_km"))
    exceeded = []
    for row in rows.drop_duplicates(["point", "lppm"]).to_dict("records"):
        budget = budgets.get((row["point"], row["lppm"]))
        if budget is None or not row["loss"] > (1 + TOLERANCE) * budget:
            continue
        if pd.isna(row["expected_quality_loss_km"]) and not _is_significant_excess(row, budget):
            continue
        exceeded.append(
            {"point": row["point"], "lppm": row["lppm"], "asked_km": budget, "realised_km": round(row["loss"], 6)}
        )
    return sorted(exceeded, key=lambda one: one["asked_km"] / one["realised_km"])


def _is_significant_excess(row: dict[Any, Any], budget_km: float) -> bool:
    low = row["quality_loss_km_low"]
    if pd.notna(low):
        return bool(low > budget_km)
    return bool(row["loss"] > (1 + _CLEARLY) * budget_km and row["queries"] >= _MANY_QUERIES)


def exceeded(manifest: RunManifest) -> set[tuple[int, str]]:
    """Return the points and LPPMs whose budgets were exceeded, according to the manifest."""
    return {(budget.point, budget.lppm) for budget in manifest.exceeded_budgets}
