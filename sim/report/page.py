"""Assembly of the page: one file with markup, data, style and script.

A content security policy allows only this style and script; the page makes no requests.
"""

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
from sim.report.answers import StudyAnswers
from sim.report.charts import charts
from sim.report.markup import Markup, escaped, joined, tag
from sim.report.replay import replays
from sim.report.services import services
from sim.report.study import Study

STYLES = ("page.css", "replay.css")
SCRIPTS = (
    "core.js",
    "layout.js",
    "charts.js",
    "reading.js",
    "tables.js",
    "track.js",
    "places.js",
    "map.js",
    "replay.js",
    "page.js",
)
LIVE = "live.js"
LIVE_STYLE = "live.css"
MOST_LETTERS = 4_900_000
"""Maximum size of a page in characters; the replay gets what the other parts leave."""


def assembled(study: Study, *, live: bool = False) -> str:
    """Return the page of a study; a live page polls its own server for newer versions."""
    answers = StudyAnswers(study)
    drawn = charts(study, answers)
    style = assets((*STYLES, LIVE_STYLE) if live else STYLES)
    script = _script((*SCRIPTS, LIVE) if live else SCRIPTS)
    parts = {
        "version": importlib.metadata.version("lppm-sim"),
        "policy": policy(style, script, live=live),
        "title": escaped(text.title(study)),
        "style": style,
        "lead": text.lead(study),
        "answer": text.answer(study),
        "standings": tables.standings(study),
        "table": tables.table(study),
        "calibrations": tables.calibrations(study),
        "tradeoff": _chart("tradeoff", drawn, "This run has no attack, so the adversary error is undefined."),
        "time": _chart("time", drawn, "This run has no queries."),
        "adaptation": _chart("adaptation", drawn, None),
        "homes": _chart("homes", drawn, None),
        "located": _chart("located", drawn, None),
        "answers": answers.table(),
        "adapted": tables.adaptation(study),
        "profiles": _chart("profiles", drawn, text.without_beliefs(study)),
        "users": _chart("users", drawn, "This run has no queries."),
        "metrics": joined([tables.metrics(study), services(study)]),
        "run": text.run(study),
        "script": script,
    }
    data = {"series": study.series, "charts": drawn}
    frame = asset("page.html")
    maps = replays(study, MOST_LETTERS - sum(map(len, (frame, _data(data), *parts.values()))))
    return Template(frame).substitute(parts, replay=_map(maps), data=_data(data | {"replay": maps}))


def waiting(title: str) -> str:
    """Return the live page before the first results; it polls its server until there are some."""
    style, script = assets((*STYLES, LIVE_STYLE)), _script(("core.js", LIVE))
    return Template(asset("waiting.html")).substitute(
        policy=policy(style, script, live=True), title=escaped(title), style=style, script=script
    )


def policy(style: str, script: str, *, live: bool = False) -> str:
    """Return the content security policy of the page: only this script and this style are allowed."""
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
    """Return the container of a chart, or the reason why there is none."""
    chart = drawn.get(name)
    content = chart["panels"] if isinstance(chart, dict) else chart
    kind = "chart small" if name == "users" else "chart"
    if content:
        return tag("div", class_=kind, data_chart=name)
    return Markup("") if otherwise is None else tag("p", otherwise, class_="none")


def _map(maps: list[dict[str, Any]]) -> Markup:
    if all("none" in one for one in maps):
        return tag("p", maps[0]["none"], class_="none")
    return tag("div", class_="map")


def _data(value: Any) -> str:
    """Return JSON that is safe inside a script element: it cannot end the element or start another."""
    return json.dumps(_shown(value), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _shown(value: Any) -> Any:
    """Replace unprintable characters in all strings of a value."""
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shown(item) for item in value]
    return printable(value) if isinstance(value, str) else value


def _script(names: tuple[str, ...]) -> str:
    return f'(() => {{\n"use strict";\n{assets(names)}}})();\n'


def assets(names: tuple[str, ...]) -> str:
    """Return the content of styles or scripts."""
    return "\n".join(asset(f"assets/{name}") for name in names)


def asset(name: str) -> str:
    """Return the text of a file of this package."""
    return files("sim.report").joinpath(*name.split("/")).read_text(encoding="utf-8")
