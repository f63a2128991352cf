"""Data of the charts, as plain lists for the script of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from sim.analysis.event_log import SERIES
from sim.analysis.statistics import FEWEST_USERS
from sim.analysis.summary import LOSS_AND_ERROR, preferred
from sim.plots.intervals import blank_few, few_users
from sim.plots.marks import marks_of
from sim.report.answers import StudyAnswers, steps
from sim.report.study import Study
from sim.storage.errors import NotApplicable
from sim.storage.sampling import sampled

MOST_USERS = 40
"""Maximum number of users with a panel of their own."""

LOSS, ERROR, EFFICIENCY = "quality loss Q\u0304", "adversary error P_AE", "efficiency P_AE / Q\u0304"
_QUERY = {"label": "query index r", "unit": "", "whole": True}
_ENDS = ("", "_low", "_high")

Chart = dict[str, Any]


def charts(study: Study, answers: StudyAnswers) -> dict[str, Any]:
    """Return all charts of a page by name."""
    of_users = study.joined([result.user_series() for result in study.results])
    return {
        "tradeoff": tradeoff(study),
        "time": over_time(study, of_users),
        "adaptation": adaptation(study),
        "profiles": beliefs(study),
        "users": user_by_user(study, of_users),
        "homes": homes(study, answers),
        "located": located(study, answers),
    }


def tradeoff(study: Study) -> Chart:
    """Return the adversary error against the quality loss, with one panel per attack."""
    shown = blank_few(_best(study.summary).dropna(subset=list(LOSS_AND_ERROR)), *LOSS_AND_ERROR)
    own_values = _of_few(study.users.assign(**_preferred_pair(study.users)), shown)
    lines = {text: i for i, text in enumerate(dict.fromkeys(study.summary["circumstances"]))}
    panels = []
    for attack, rows in shown.groupby("attack", sort=False):
        curves = []
        for (lppm, text), own in rows.groupby(["lppm", "circumstances"], sort=False):
            ordered = own.sort_values(["quality_loss_km", "point"])
            curve = _curve(study, lppm, ordered, *LOSS_AND_ERROR) | {"at": list(ordered["at"])}
            of_users = own_values[(own_values["attack"] == attack) & (own_values["circumstances"] == text)]
            curve |= _each(
                of_users[of_users["lppm"] == lppm].sort_values(["quality_loss_km", "point"]), *LOSS_AND_ERROR
            )
            if len(lines) > 1:
                curve |= {"line": lines[text] % 4, "name": f"{lppm} ({text})" if text else lppm}
            curves.append(curve)
        panels.append({"title": _against(attack), "curves": curves})
    return _chart(
        _km(LOSS), _km(ERROR), panels, note=_note(study, shown, "quality_loss_km", "bars", own_values), equal=True
    )


def over_time(study: Study, of_users: pd.DataFrame) -> list[Chart]:
    """Return quality loss, adversary error and efficiency by query index, with one panel per attack."""
    shown = _best(study.at_middle(study.joined([result.over_time() for result in study.results])))
    efficiency = study.joined([result.efficiency() for result in study.results])
    own_values = _of_few(_at_index(of_users.assign(efficiency=_efficiency(of_users))), shown)
    marks, note = _marks(study), _note(study, shown, "quality_loss_km", "bands", own_values)
    measures = (
        (_km(LOSS), shown, "quality_loss_km"),
        (_km(ERROR), shown, "adversary_error_km"),
        (_plain(EFFICIENCY), efficiency, "efficiency"),
    )
    tables = [(axis, _at_index(table.dropna(subset=[name])), name) for axis, table, name in measures]
    drawn = []
    for axis, table, name in tables:
        panels = _by_attack(study, blank_few(table, name), "at_index", name, own_values)
        if name == "quality_loss_km":
            panels = _once(panels)
        if panels:
            drawn.append(_chart(_QUERY, axis, panels, note=note, marks=marks))
    return drawn


def _once(panels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a single panel if all have the same curves; the quality loss does not depend on the attack."""
    same = all(panel["curves"] == panels[0]["curves"] for panel in panels)
    return [panels[0] | {"title": ""}] if same and len(panels) > 1 else panels


def adaptation(study: Study) -> list[Chart]:
    """Return the efficiency by the number of queries since the shift, with one panel per attack."""
    series = study.adapted("time_series")
    if series.empty:
        return []
    table = study.at_middle(series).dropna(subset=["efficiency"])
    users = study.adapted("user_time_series")
    own_values = table.head(0).assign(user="") if users.empty else study.at_middle(users)
    panels = _by_attack(study, blank_few(table, "efficiency"), "queries_after", "efficiency", own_values)
    for curve in (curve for panel in panels for curve in panel["curves"]):
        _break_at_shift(curve)
    marks = [{"x": 0.0, "low": 0.0, "high": 0.0, "name": name, "ends": False} for name in dict.fromkeys(table["shift"])]
    window = table["window"].iloc[0]
    note = (
        f"windows of the last {window} queries, all before or all after the shift: the first window after the shift "
        f"ends {window} queries after it"
    )
    note = "; ".join(filter(None, (note, _note(study, table, "efficiency", "bands", own_values))))
    x = {"label": "queries after the shift", "unit": "", "whole": True}
    return [_chart(x, _plain(EFFICIENCY), panels, note=note, marks=marks, title="Adaptation to the shift")]


def _break_at_shift(curve: dict[str, Any]) -> None:
    """Insert a gap where windows would contain queries from both sides of the shift."""
    for line in (curve, *(curve.get("each") or [])):
        after = next((i for i, x in enumerate(line["x"]) if x > 0), None)
        if after:
            for key, value in (("x", line["x"][after]), ("y", None), ("low", None), ("high", None)):
                if line.get(key) is not None:
                    line[key].insert(after, value)


def beliefs(study: Study) -> list[Chart]:
    """Return the distance between believed and true profiles by query index."""
    means = study.joined([_or_nothing(result.mean_belief_distances) for result in study.results])
    if means.empty:
        return []
    of_users = study.joined([_or_nothing(result.belief_distances) for result in study.results])
    table = blank_few(means, "distance")
    own_values = _of_few(of_users, table)
    axis = _plain("distance of the belief from the true profile")
    note = "total variation distance; the belief of a Markov mechanism depends on its last report"
    note = "; ".join(filter(None, (note, _note(study, table, "distance", "bands", own_values))))
    curves = [
        _curve(study, lppm, own, "index", "distance")
        | _each(own_values[own_values["lppm"] == lppm], "index", "distance")
        for lppm, own in table.groupby("lppm", sort=False)
    ]
    panels = [{"title": "", "curves": curves}]
    return [_chart(_QUERY, axis, panels, note=note, marks=_marks(study), title="Beliefs of the mechanisms")]


def _or_nothing(read: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    try:
        return read().assign(attack="")
    except NotApplicable:
        return pd.DataFrame({"point": [], "lppm": [], "attack": []})


def homes(study: Study, answers: StudyAnswers) -> list[Chart]:
    """Return the share of users whose home is known over days, with one panel per attack."""
    panels = []
    note = ""
    for title, radius, rows in answers.homes():
        note = f"{radius}; {_bands(rows, 'known')}"
        of_lppm = rows.groupby("lppm", sort=False)
        panels.append(
            {"title": title, "curves": [_curve(study, name, steps(own), "day", "known") for name, own in of_lppm]}
        )
    x = {"label": "days of reports", "unit": "", "whole": True}
    return [_chart(x, _plain("share of users"), panels, note=note, title="Homes known")] if panels else []


def located(study: Study, answers: StudyAnswers) -> list[Chart]:
    """Return the share of queries located within each radius, with one panel per attack."""
    located = list(answers.located())
    panels = [
        {
            "title": title,
            "curves": [
                _curve(study, name, own, "radius_km", "share") for name, own in rows.groupby("lppm", sort=False)
            ],
        }
        for title, rows in located
    ]
    x = {"label": "radius", "unit": "km", "whole": False}
    bands = _bands(pd.concat([rows for _, rows in located]), "share") if located else ""
    note = f"share of queries whose true place is within the radius of the estimate; {bands}"
    return [_chart(x, _plain("share of queries"), panels, note=note, title="Located")] if panels else []


def _bands(rows: pd.DataFrame, value: str) -> str:
    """Return the note on bands, which few users do not have."""
    if rows[f"{value}_low"].notna().any():
        return "bands: 95 % confidence intervals over users"
    return f"no intervals for fewer than {FEWEST_USERS} users"


def user_by_user(study: Study, of_users: pd.DataFrame) -> list[dict[str, Any]]:
    """Return loss and error of single users by query index, with one panel per user for each measure and attack."""
    users = sorted(set(of_users["user"]))
    most = min(max(MOST_USERS // len(study.results), 1), len(users))
    shown, note = _chosen_users(study, users, most)
    table = _at_index(of_users[of_users["user"].isin(shown)])
    marks = _marks(study)
    attacks = list(dict.fromkeys(table["attack"]))
    choices = [(ERROR, "adversary_error_km", attack) for attack in attacks if attack]
    choices.append((LOSS, "quality_loss_km", attacks[0]))
    entries = []
    for label, name, attack in choices:
        rows = table[table["attack"] == attack].dropna(subset=[name])
        panels = [
            {
                "title": user,
                "curves": [
                    _curve(study, lppm, own, "at_index", name) for lppm, own in of_user.groupby("lppm", sort=False)
                ],
            }
            for user, of_user in rows.groupby("user", sort=True)
        ]
        chart = _chart(_QUERY, _km(label), panels, note=note, marks=marks)
        measure = " ".join(label.split()[:2])
        entries.append({"measure": measure, "attack": attack if name == "adversary_error_km" else "", "chart": chart})
    return entries


def _chosen_users(study: Study, users: Sequence[str], most: int) -> tuple[list[str], str]:
    """Return at most `most` of the users, and a note if these are not all."""
    if any(result.sample_note() for result in study.results):
        total = max(result.totals().n_users for result in study.results)
        return sampled(users, most), f"sample of {most} of {total:,} users, chosen by a hash of their names"
    shown = [users[i] for i in np.unique(np.linspace(0, len(users) - 1, most).astype(int))]
    return shown, "" if len(shown) == len(users) else f"{len(shown)} of {len(users):,} users, evenly spaced by name"


def _by_attack(study: Study, table: pd.DataFrame, x: str, y: str, users: pd.DataFrame) -> list[dict[str, Any]]:
    """Return one panel per attack; `users` has the values of individually drawn users."""
    panels = []
    for attack, rows in table.groupby("attack", sort=False):
        of_attack = users[users["attack"] == attack]
        curves = [
            _curve(study, lppm, own, x, y) | _each(of_attack[of_attack["lppm"] == lppm], x, y)
            for lppm, own in rows.groupby("lppm", sort=False)
        ]
        panels.append({"title": _against(attack), "curves": curves})
    return panels


def _each(users: pd.DataFrame, x: str, y: str) -> dict[str, Any]:
    """Return the curves of single users, drawn as thin lines if there are too few for an interval."""
    lines = [
        {"x": _numbers(own[x]), "y": _numbers(own[y])}
        for _, own in users.dropna(subset=[x, y]).groupby("user", sort=True)
    ]
    return {"each": lines} if lines else {}


def _of_few(users: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of users for series with too few users for an interval."""
    return users.merge(few_users(table), on=SERIES)


def _preferred_pair(users: pd.DataFrame) -> dict[str, Any]:
    return {name: preferred(users, name) for name in LOSS_AND_ERROR}


def _efficiency(users: pd.DataFrame) -> Any:
    """Return P_AE / Q-bar of each row; NaN if the loss is zero."""
    loss = users["quality_loss_km"].astype(float)
    return users["adversary_error_km"].astype(float) / loss.where(loss > 0)


def _at_index(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows of windows with the middle index of each window and both ends."""
    middle_index = (table["first_index"] + table["last_index"]) / 2
    return table.assign(at_index=middle_index, at_index_low=table["first_index"], at_index_high=table["last_index"])


def _marks(study: Study) -> list[dict[str, Any]]:
    """Return the marks of the behaviour shifts at the drawn sweep points."""
    drawn = study.at_middle(study.summary)
    tables = []
    for name, result in zip(study.names, study.results, strict=True):
        shifts = result.shift_times()
        tables.append(shifts[shifts["point"].isin(drawn.loc[drawn["run"] == name, "point"])])
    return [
        {"x": mark.at, "low": mark.low, "high": mark.high, "name": mark.name, "ends": mark.ends}
        for mark in marks_of(pd.concat(tables, ignore_index=True))
    ]


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
    frame = {"title": title, "x": x, "y": y, "equal": equal, "marks": list(marks), "note": note}
    return frame | {"panels": list(panels)}


def _curve(study: Study, lppm: Any, rows: pd.DataFrame, x: str, y: str) -> dict[str, Any]:
    series = next(i for i, entry in enumerate(study.series) if entry["name"] == lppm)
    curve = {"series": series, "name": str(lppm), "line": study.series[series]["look"][2]}
    places = {"x": x, "x_low": f"{x}_low", "x_high": f"{x}_high", "y": y, "low": f"{y}_low", "high": f"{y}_high"}
    return curve | {"at": None} | {key: _numbers(rows[name]) if name in rows else None for key, name in places.items()}


def _numbers(values: Iterable[float]) -> list[float | None] | None:
    """Return values with five significant digits, None for missing ones; None if all are missing."""
    numbers: list[float | None] = [None if pd.isna(value) else float(f"{value:.5g}") for value in values]
    return numbers if any(value is not None for value in numbers) else None


def _best(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with realised metrics replaced by the expected ones where recorded."""
    return table.assign(**{name + end: preferred(table, name, end) for name in LOSS_AND_ERROR for end in _ENDS})


def _km(label: str) -> dict[str, Any]:
    return {"label": label, "unit": "km", "whole": False}


def _plain(label: str) -> dict[str, Any]:
    return {"label": label, "unit": "", "whole": False}


def _against(attack: Any) -> str:
    return f"against {attack}" if attack else "no attack"


def _note(study: Study, rows: pd.DataFrame, name: str, what: str, users: pd.DataFrame) -> str:
    """Return the note on bars, bands and thin lines."""
    drawn = blank_few(rows, name)[f"{name}_low"].notna().any()
    parts = [f"{what}: 95 % confidence intervals over {study.units}"] if drawn else []
    if len(users):
        parts.append(f"thin lines or small marks: individual users (no intervals for fewer than {FEWEST_USERS} users)")
    return "; ".join(parts)
