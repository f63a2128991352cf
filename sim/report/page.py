"""One file with everything in it: markup, numbers, style and script. Nothing else may run, and nothing is asked for."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
from importlib.resources import files
from string import Template
from typing import Any

from sim.plots.labels import printable
from sim.report import tables, text
from sim.report.charts import charts
from sim.report.markup import Markup, escaped, tag
from sim.report.replay import replays
from sim.report.study import Study

STYLES = ("page.css", "replay.css")
SCRIPTS = ("core.js", "layout.js", "charts.js", "reading.js", "tables.js", "track.js", "map.js", "replay.js", "page.js")
LIVE = "live.js"
LIVE_STYLE = "live.css"
MOST_LETTERS = 4_900_000
"""A page takes no more than this: what the rest leaves is for the map."""


def assembled(study: Study, *, live: bool = False) -> str:
    """Return the page of some runs; a live one asks its own server for newer ones."""
    drawn = charts(study)
    style = _assets((*STYLES, LIVE_STYLE) if live else STYLES)
    script = _script((*SCRIPTS, LIVE) if live else SCRIPTS)
    said = {
        "version": importlib.metadata.version("lppm-sim"),
        "policy": policy(style, script, live=live),
        "title": escaped(text.title(study)),
        "style": style,
        "lead": text.lead(study),
        "answer": text.answer(study),
        "standings": tables.standings(study),
        "table": tables.table(study),
        "tradeoff": _chart("tradeoff", drawn, "There is no attack in this run, so there is no error to draw."),
        "time": _chart("time", drawn, "There is no query in this run."),
        "adaptation": _chart("adaptation", drawn, None),
        "adapted": tables.adaptation(study),
        "profiles": _chart("profiles", drawn, "No beliefs were kept in this run (record.snapshots)."),
        "users": _chart("users", drawn, "There is no query in this run."),
        "figures": tables.figures(study),
        "run": text.run(study),
        "script": script,
    }
    data = {"series": study.series, "charts": drawn}
    frame = _asset("page.html")
    maps = replays(study, MOST_LETTERS - sum(map(len, (frame, _data(data), *said.values()))))
    return Template(frame).substitute(said, replay=_map(maps), data=_data(data | {"replay": maps}))


def waiting(title: str) -> str:
    """Return what a live page is before anything is finished: it asks its server until something is."""
    style, script = _assets((*STYLES, LIVE_STYLE)), _script(("core.js", LIVE))
    return Template(_asset("waiting.html")).substitute(
        policy=policy(style, script, live=True), title=escaped(title), style=style, script=script
    )


def policy(style: str, script: str, *, live: bool = False) -> str:
    """Return what a browser may do with the page: run this script, use this style, and nothing else."""
    rules = {
        "default-src": "'none'",
        "style-src": _fingerprint(style),
        "script-src": _fingerprint(script),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    if live:
        rules["connect-src"] = "'self'"
    return "; ".join(f"{name} {allowed}" for name, allowed in rules.items())


def _fingerprint(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _chart(name: str, drawn: dict[str, Any], otherwise: str | None) -> Markup:
    """Return the place of a chart, or why there is none."""
    chart = drawn.get(name)
    there = chart["panels"] if isinstance(chart, dict) else chart
    kind = "chart small" if name == "users" else "chart"
    if there:
        return tag("div", class_=kind, data_chart=name)
    return Markup("") if otherwise is None else tag("p", otherwise, class_="none")


def _map(maps: list[dict[str, Any]]) -> Markup:
    if all("none" in one for one in maps):
        return tag("p", maps[0]["none"], class_="none")
    return tag("div", class_="map")


def _data(value: Any) -> str:
    """Return numbers and names as JSON that can stand in a page: nothing in it ends the element or begins another."""
    return json.dumps(_shown(value), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _shown(value: Any) -> Any:
    """Return the same with names as they may be shown."""
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shown(item) for item in value]
    return printable(value) if isinstance(value, str) else value


def _script(names: tuple[str, ...]) -> str:
    return f'(() => {{\n"use strict";\n{_assets(names)}}})();\n'


def _assets(names: tuple[str, ...]) -> str:
    return "\n".join(_asset(f"assets/{name}") for name in names)


def _asset(name: str) -> str:
    return files("sim.report").joinpath(*name.split("/")).read_text(encoding="utf-8")
