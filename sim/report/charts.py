"""The numbers of the charts, as plain lists: what the page's script draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from sim import analysis
from sim.report.study import Study

LOSS, ERROR, EFFICIENCY = "quality loss Q\u0304", "adversary error P_AE", "efficiency P_AE / Q\u0304"
_QUERY = {"label": "query index r", "unit": "", "whole": True}
_ENDS = ("", "_low", "_high")

Chart = dict[str, Any]


def charts(study: Study) -> dict[str, Any]:
    """Return every chart of a page, by the place it is drawn in."""
    return {"tradeoff": tradeoff(study), "time": over_time(study)}


def tradeoff(study: Study) -> Chart:
    """Return the adversary's error against the quality loss, a panel for each attack."""
    shown = _best(study.summary).dropna(subset=list(analysis.FIGURES))
    lines = {text: i for i, text in enumerate(dict.fromkeys(study.summary["circumstances"]))}
    panels = []
    for attack, rows in shown.groupby("attack", sort=False):
        curves = []
        for (lppm, text), own in rows.groupby(["lppm", "circumstances"], sort=False):
            ordered = own.sort_values(["quality_loss_km", "point"])
            curve = _curve(study, lppm, ordered, "quality_loss_km", "adversary_error_km") | {"at": list(ordered["at"])}
            if len(lines) > 1:
                curve |= {"line": lines[text] % 4, "name": f"{lppm} ({text})" if text else lppm}
            curves.append(curve)
        panels.append({"title": _against(attack), "curves": curves})
    return _chart(_km(LOSS), _km(ERROR), panels, note=_note(shown, "bars"), equal=True)


def over_time(study: Study) -> list[Chart]:
    """Return quality loss, adversary error and efficiency by query index, a panel for each attack."""
    table = study.at_middle(study.joined(lambda result: result.over_time()))
    shown = _best(table).assign(at_index=(table["first_index"] + table["last_index"]) / 2)
    marks, note = _marks(study, shown), _note(shown, "bands")
    found = []
    for name, axis in ((analysis.FIGURES[0], _km(LOSS)), (analysis.FIGURES[1], _km(ERROR))):
        known = shown.dropna(subset=[name])
        panels = [
            {
                "title": _against(attack),
                "curves": [
                    _curve(study, lppm, own, "at_index", name) for lppm, own in rows.groupby("lppm", sort=False)
                ],
            }
            for attack, rows in known.groupby("attack", sort=False)
        ]
        if panels:
            found.append(_chart(_QUERY, axis, panels, note=note, marks=marks))
    return found


def _marks(study: Study, shown: pd.DataFrame) -> list[dict[str, Any]]:
    """Return where users' lives change: the median over users, and where nine in ten of them lie."""
    tables = [result.shifts() for result in study.results]
    shifts = pd.concat(tables, ignore_index=True)
    found = []
    for (name, event), own in shifts[shifts["point"].isin(set(shown["point"]))].groupby(["shift", "event"], sort=False):
        at, low, high = (float(own["index"].quantile(q)) for q in (0.5, 0.05, 0.95))
        found.append({"x": at, "low": low, "high": high, "name": str(name), "ends": event == "shift_end"})
    return sorted(found, key=lambda mark: float(mark["x"]))


def _chart(
    x: dict[str, Any],
    y: dict[str, Any],
    panels: Sequence[dict[str, Any]],
    *,
    note: str = "",
    marks: Sequence[dict[str, Any]] = (),
    equal: bool = False,
    title: str = "",
) -> Chart:
    kept = {"title": title, "x": x, "y": y, "equal": equal, "marks": list(marks), "note": note}
    return kept | {"panels": list(panels)}


def _curve(study: Study, lppm: Any, rows: pd.DataFrame, x: str, y: str) -> dict[str, Any]:
    series = next(i for i, entry in enumerate(study.series) if entry["name"] == lppm)
    curve = {"series": series, "name": str(lppm), "line": study.series[series]["look"][2]}
    curve |= {
        key + end: _numbers(rows[name + end])
        for key, name in (("x", x), ("y", y))
        for end in _ENDS
        if name + end in rows
    }
    curve["low"], curve["high"] = curve.pop("y_low", None), curve.pop("y_high", None)
    return {"x_low": None, "x_high": None, "at": None} | curve


def _numbers(values: Iterable[float]) -> list[float | None] | None:
    """Return figures as the page needs them: five digits, None for none; None alone where there is none at all."""
    found: list[float | None] = [None if pd.isna(value) else float(f"{value:.5g}") for value in values]
    return found if any(value is not None for value in found) else None


def _best(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the expected figures, where there are any, in the place of the realised."""
    return table.assign(
        **{name + end: analysis.preferred(table, name, end) for name in analysis.FIGURES for end in _ENDS}
    )


def _km(label: str) -> dict[str, Any]:
    return {"label": label, "unit": "km", "whole": False}


def _against(attack: Any) -> str:
    return f"against {attack}" if attack else "no attack"


def _note(rows: pd.DataFrame, what: str) -> str:
    """Say what bars or bands are, if there are any."""
    units = "replications" if (rows["users"] == 1).all() else "users"
    return f"{what}: 95 % intervals over {units}" if rows["quality_loss_km_low"].notna().any() else ""
