"""Cells of result tables: metrics with their spread, swept values."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sim.analysis.statistics import INTERVAL, SPREAD
from sim.analysis.sweep_labels import swept_value as plain_value
from sim.analysis.tables import format_metric
from sim.escaping import escape


def swept_value(value: Any) -> str:
    """Format a swept value; a missing one is empty."""
    return "" if pd.isna(value) else escape(plain_value(value))


def metric(row: pd.Series[float], name: str) -> str:
    """Format a metric with its spread; prefer the expected metric, which has less noise."""
    best = f"expected_{name}" if pd.notna(row.get(f"expected_{name}")) else name
    return with_spread(row.to_dict(), best, 3)


def with_spread(row: dict[Any, Any], name: str, digits: int, *, signed: bool = False) -> str:
    """Format a metric, with its spread if it has one."""
    return " ".join(filter(None, format_metric(row, name, digits, signed=signed)))


def spreads(table: pd.DataFrame) -> list[str]:
    """Return the kind of spread of each row."""
    return list(table[SPREAD]) if SPREAD in table else [INTERVAL]
