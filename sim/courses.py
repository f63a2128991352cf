"""Courses of a run, query by query: of each user, of the efficiency, and of what mechanisms have learned."""

from __future__ import annotations

import pandas as pd


def middle_points(frame: pd.DataFrame) -> dict[str, int]:
    """Return, for each LPPM, the one of its sweep points that stands for the others."""
    found = {str(lppm): sorted(own.unique()) for lppm, own in frame.groupby("lppm")["point"]}
    return {lppm: int(points[(len(points) - 1) // 2]) for lppm, points in found.items()}
