"""Labels of sweep points: swept values beside rows, names of LPPMs that a sweep changes, the order of the scenario."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from sim.storage.run_directory import RunDirectory


def with_swept_values(frame: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Return rows by point and LPPM with the swept values beside them, empty where an LPPM has only one of several."""
    joined = frame.merge(points, on="point", how="left", validate="many_to_one", suffixes=("", "_swept"))
    for path in points.columns.drop("point"):
        column = f"{path}_swept" if path in frame.columns else path
        own = joined.groupby("lppm")[column].transform(lambda values: values.nunique(dropna=False))
        if points[path].nunique(dropna=False) > 1:
            joined[column] = joined[column].where(own > 1)
    return joined


def named_apart(frame: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with LPPMs named apart where something of theirs is swept that is no number.

    A curve joins points that differ in a mechanism's numbers. With another training set, say, it is another mechanism.
    """
    numbers = points.select_dtypes("number").columns
    said = _swept_text(frame, points, [path for path in points.columns if _of_lppms(path) and path not in numbers])
    return frame.assign(
        lppm=[f"{lppm} ({text})" if text else lppm for lppm, text in zip(frame["lppm"], said, strict=True)]
    )


def in_order(frame: pd.DataFrame, run: RunDirectory) -> pd.DataFrame:
    """Return the rows with LPPMs and attacks in the order of the scenario, which colours and panels follow."""
    scenario = run.manifest().scenario
    lppms = {lppm.name: i for i, lppm in enumerate(scenario.lppms)}
    attacks = {attack.name: i for i, attack in enumerate(scenario.attacks)}
    ranked = frame.assign(_lppm=frame["lppm"].map(lppms), _attack=frame["attack"].map(attacks))
    ordered = ranked.sort_values(["_lppm", "_attack"], kind="stable", ignore_index=True)
    return ordered.drop(columns=["_lppm", "_attack"])


def swept_words(frame: pd.DataFrame, points: pd.DataFrame) -> list[str]:
    """Return, for each row, all swept values that make a difference to its LPPM, in words."""
    return _swept_text(frame, points, list(points.columns.drop("point")))


def circumstances(frame: pd.DataFrame, points: pd.DataFrame) -> list[str]:
    """Return, for each row, what is swept outside the mechanisms: only rows with the same can be compared."""
    return _swept_text(frame, points, [path for path in points.columns.drop("point") if not _of_lppms(path)])


def _of_lppms(path: str) -> bool:
    return path.startswith("lppms.")


def _swept_text(frame: pd.DataFrame, points: pd.DataFrame, paths: Sequence[str]) -> list[str]:
    """Return the values of some swept paths in words, for each row; empty where they make no difference to an LPPM."""
    short = path_headings(paths)
    values = with_swept_values(frame[["lppm", "point"]], points[["point", *paths]]).to_dict("records")
    return [
        ", ".join(f"{short[path]} {swept_value(row[path])}" for path in paths if pd.notna(row[path])) for row in values
    ]


def swept_value(value: Any) -> str:
    """Write a swept value: whole numbers without a point.

    >>> swept_value(1.0), swept_value(0.25), swept_value("few")
    ('1', '0.25', 'few')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)


def path_headings(paths: Sequence[str]) -> dict[str, str]:
    """Return the last step of each path, or all of it where the last steps are alike."""
    last = [path.rsplit(".", 1)[-1] for path in paths]
    return {path: path if last.count(step) > 1 else step for path, step in zip(paths, last, strict=True)}
