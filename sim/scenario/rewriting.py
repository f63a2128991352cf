"""A validated scenario written out again: with changes, as YAML, and as a summary for notebooks."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from sim.escaping import visible
from sim.scenario.load import load_source
from sim.scenario.models import Scenario
from sim.scenario.reading.python_source import PythonSource


def plain(scenario: Scenario) -> dict[str, Any]:
    """Return the data of a scenario without defaults, as in a scenario file."""
    return scenario.model_dump(mode="json", exclude_unset=True)


def with_settings(scenario: Scenario, settings: Mapping[str, Any]) -> Scenario:
    """Return a scenario with values changed by dotted path, as `sim.load` does; faults name the setting."""
    place = scenario.place
    source = PythonSource(name="with_settings", data=plain(scenario))
    return load_source(source, place.folder, place.code, settings=dict(settings), data=place.data)


def to_yaml(scenario: Scenario) -> str:
    """Return a scenario as the text of a scenario file, without defaults."""
    text: str = yaml.safe_dump(plain(scenario), sort_keys=False, allow_unicode=True, width=100)
    return text


def one_line_summary(scenario: Scenario) -> str:
    """Return name, mechanisms, attacks and sweep of a scenario in one line."""
    return f"<Scenario {scenario.name!r}: {'; '.join(f'{key} {text}' for key, text in _parts(scenario))}>"


def to_html(scenario: Scenario) -> str:
    """Return a summary of a scenario as HTML, with all of it as YAML to unfold. Colours are inherited."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align: left">{_escaped(key)}</th>'
        f'<td style="text-align: left">{_escaped(text)}</td></tr>'
        for key, text in _parts(scenario)
    )
    description = f"<p>{_escaped(scenario.description)}</p>" if scenario.description else ""
    return (
        f"<div><p><b>{_escaped(scenario.name)}</b></p>{description}"
        f'<table class="dataframe"><tbody>{rows}</tbody></table>'
        f"<details><summary>YAML</summary><pre>{_escaped(to_yaml(scenario))}</pre></details></div>"
    )


def _parts(scenario: Scenario) -> Iterator[tuple[str, str]]:
    users = scenario.users
    limits = [f"{number} {unit}" for number, unit in ((users.queries, "queries"), (users.days, "days")) if number]
    count = "" if users.count is None else f"{users.count} "
    yield "users", f"{count}{users.mobility.kind}{', ' if limits else ''}{', '.join(limits)}"
    yield "grid" if scenario.world.locations is None else "locations", scenario.world.where.kind
    if scenario.shifts:
        yield "shifts", ", ".join(shift.kind for shift in scenario.shifts)
    yield "LPPMs", ", ".join(lppm.name for lppm in scenario.lppms)
    yield "attacks", ", ".join(attack.name for attack in scenario.attacks) or "none"
    if scenario.sweep:
        yield "sweep", f"{', '.join(scenario.sweep)} ({math.prod(map(len, scenario.sweep.values()))} points)"


def _escaped(text: str) -> str:
    return html.escape(visible(text))
