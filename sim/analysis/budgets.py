"""Quality budgets exceeded by a run.

A `quality_budget_km` bounds the expected loss under the mechanism's own model. Users who do not follow that model may
lose more, sometimes several times as much. A realised budget refers to the run: see `sim.execution.calibration`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from sim.analysis.statistics import INTERVAL
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
            | _limits(row)
        )
    return sorted(exceeded, key=lambda one: one["asked_km"] / one["realised_km"])


def _limits(row: dict[Any, Any]) -> dict[str, float]:
    """Return the 95 % confidence limits of the loss; nothing if they are unknown or of single users."""
    expected = "expected_" if pd.notna(row["expected_quality_loss_km"]) else ""
    low, high = (row.get(f"{expected}quality_loss_km{end}") for end in ("_low", "_high"))
    if row.get("spread") != INTERVAL or low is None or high is None or pd.isna(low) or pd.isna(high):
        return {}
    return {"low_km": round(low, 6), "high_km": round(high, 6)}


def _is_significant_excess(row: dict[Any, Any], budget_km: float) -> bool:
    low = row["quality_loss_km_low"]
    if pd.notna(low):
        return bool(low > budget_km)
    return bool(row["loss"] > (1 + _CLEARLY) * budget_km and row["queries"] >= _MANY_QUERIES)


def exceeded(manifest: RunManifest) -> dict[tuple[int, str], float]:
    """Return the budgets in km that were exceeded by point and LPPM, according to the manifest."""
    return {(budget.point, budget.lppm): budget.asked_km for budget in manifest.exceeded_budgets}
