"""Labels of sweep points: columns of swept values, distinct names of swept LPPMs, and the order of the scenario."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from sim.storage.run_directory import RunDirectory


def with_swept_values(frame: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Return rows by point and LPPM with a column for each swept parameter, NaN where it does not affect the LPPM."""
    joined = frame.merge(points, on="point", how="left", validate="many_to_one", suffixes=("", "_swept"))
    for path in points.columns.drop("point"):
        column = f"{path}_swept" if path in frame.columns else path
        own = joined.groupby("lppm")[column].transform(lambda values: values.nunique(dropna=False))
        if points[path].nunique(dropna=False) > 1:
            joined[column] = joined[column].where(own > 1)
    return joined


def with_distinct_names(frame: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the values of swept non-numeric LPPM parameters appended to the LPPM names.

    A curve joins points that differ in numeric parameters. A different training set, for example, makes a different
    mechanism.
    """
    numbers = points.select_dtypes("number").columns
    labels = _swept_text(frame, points, [path for path in points.columns if _of_lppms(path) and path not in numbers])
    return frame.assign(
        lppm=[f"{lppm} ({label})" if label else lppm for lppm, label in zip(frame["lppm"], labels, strict=True)]
    )


def in_order(frame: pd.DataFrame, run: RunDirectory) -> pd.DataFrame:
    """Return the rows with LPPMs and attacks in the order of the scenario, as colours and panels are."""
    scenario = run.manifest().scenario
    lppms = {lppm.name: i for i, lppm in enumerate(scenario.lppms)}
    attacks = {attack.name: i for i, attack in enumerate(scenario.attacks)}
    ranked = frame.assign(_lppm=frame["lppm"].map(lppms), _attack=frame["attack"].map(attacks))
    ordered = ranked.sort_values(["_lppm", "_attack"], kind="stable", ignore_index=True)
    return ordered.drop(columns=["_lppm", "_attack"])


def swept_words(frame: pd.DataFrame, points: pd.DataFrame) -> list[str]:
    """Return a label for each row: all swept values that affect its LPPM."""
    return _swept_text(frame, points, list(points.columns.drop("point")))


def circumstances(frame: pd.DataFrame, points: pd.DataFrame) -> list[str]:
    """Return a label for each row: the swept values outside the mechanisms. Only rows with equal labels compare."""
    return _swept_text(frame, points, [path for path in points.columns.drop("point") if not _of_lppms(path)])


def _of_lppms(path: str) -> bool:
    return path.startswith("lppms.")


def _swept_text(frame: pd.DataFrame, points: pd.DataFrame, paths: Sequence[str]) -> list[str]:
    """Return the values of some swept paths as text for each row, without those that do not affect the LPPM."""
    short = path_headings(paths)
    values = with_swept_values(frame[["lppm", "point"]], points[["point", *paths]]).to_dict("records")
    return [
        ", ".join(f"{short[path]} {swept_value(row[path])}" for path in paths if pd.notna(row[path])) for row in values
    ]


def swept_value(value: Any) -> str:
    """Format a swept value: integers without a decimal point.

    >>> swept_value(1.0), swept_value(0.25), swept_value("few")
    ('1', '0.25', 'few')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)


def path_headings(paths: Sequence[str]) -> dict[str, str]:
    """Return the last key of each path, or the full path if several paths share their last key."""
    last = [path.rsplit(".", 1)[-1] for path in paths]
    return {path: path if last.count(step) > 1 else step for path, step in zip(paths, last, strict=True)}
