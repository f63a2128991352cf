"""Text of the page: results in sentences, and the configuration of the run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import yaml

from sim.analysis import calibrations
from sim.analysis import narrative as sentences
from sim.analysis.result import Result
from sim.analysis.summary import LOSS_AND_ERROR
from sim.analysis.tables import table_spread_note
from sim.report.markup import Markup, bulleted, joined, tag, typeset
from sim.report.study import OF_USERS, Study
from sim.report.tables import sortable
from sim.scenario.models import RepeatUntil, Scenario
from sim.storage.errors import NotApplicable
from sim.storage.manifest import RunManifest
from sim.storage.status import failed_where

_FEW_DIFFERENCES, _MOST_DIFFERENCES = 8, 40


def title(study: Study) -> str:
    """Return the title of the page."""
    *others, last = study.names
    return f"{', '.join(others)} and {last}" if others else last


def lead(study: Study) -> Markup:
    """Return the lines below the title: description, and numbers of users, mechanisms, attacks and queries."""
    lines = []
    for name, result in zip(study.names, study.results, strict=True):
        summary = study.summary[study.summary["run"] == name]
        counted = summary.drop_duplicates(["lppm", "point"])["queries"].sum()
        description = result.manifest.scenario.description.strip()
        about = f"{name}:" if study.compared else f"{description.rstrip('.')}." if description else ""
        attacks = summary.loc[summary["attack"] != "", "attack"].nunique()
        amounts = [
            _counted(int(summary["users"].max()), "user"),
            _counted(summary["own_lppm"].nunique(), "mechanism"),
            _counted(attacks, "attack"),
            _counted(int(counted), "query", "queries"),
        ]
        lines.append(tag("p", f"{about} {', '.join(amounts)}.", class_="lead"))
    return joined(lines)


def _counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}" if number else f"no {one}"


def answer(study: Study) -> Markup:
    """Return the sentences on which mechanism protects best, and the warnings."""
    table = study.tournament
    lines: list[str] = []
    if not table.empty:
        lines = [sentences.tournament(table, *study.results[0].tournament_leads(table))]
    partial = []
    for runs in study.user_groups.values() if table.empty else ():
        compared = study.compared_users(runs)
        lines += sentences.comparisons(compared)
        common = 0 if len(runs) == 1 else sum(block["user"].nunique() for block in compared)
        if len(runs) > 1 and common < study.summary.loc[study.summary["run"].isin(runs), "users"].max():
            partial.append(f"{', '.join(runs)}: compared over the {common:,} users common to all of them.")
    caveats = [
        f"{name}: {warning}" if study.compared else warning
        for name, result in zip(study.names, study.results, strict=True)
        for warning in _warnings(result)
    ]
    caveats += [note for result in study.results if (note := result.prior_error_note())]
    if len(study.user_groups) > 1:
        groups = " | ".join(", ".join(runs) for runs in study.user_groups.values())
        caveats.insert(0, f"These runs have different users ({groups}): mechanisms are compared only within a group.")
    caveats += partial
    note = f"{table_spread_note(study.summary, study.units)}; differences are paired by user{_sampled(study)}."
    note = note[0].upper() + note[1:]
    return joined(
        [
            *(_sentence(line) for line in lines or _alone(study)),
            tag("p", note, class_="note"),
            bulleted(caveats, "warning"),
            _differences(study) if study.compared else "",
        ]
    )


def _sampled(study: Study) -> str:
    """Return a clause on the sample of users of a large population; empty if there is none."""
    notes = list(dict.fromkeys(filter(None, (result.sample_note() for result in study.results))))
    return f"; means are over all users, single users and the replay are from a {', '.join(notes)}" if notes else ""


def without_beliefs(study: Study) -> str:
    """Return why the page has no distances between beliefs and true profiles."""
    codes = set()
    for result in study.results:
        try:
            result.mean_belief_distances()
        except NotApplicable as error:
            codes.add(error.code)
    if "needs-query-log" in codes:
        return (
            "The event log is a summary without the users' cells, so the recorded beliefs cannot be compared with the "
            "true profiles (set record.log to queries)."
        )
    if codes == {"no-belief"}:
        return "The reports of these mechanisms do not depend on a belief."
    return "This run has no belief snapshots (set record.snapshots)."


def _sentence(line: str) -> Markup:
    """Return a sentence; the part after the semicolon, on the other mechanisms, is set smaller."""
    answer, _, behind = line.partition("; ")
    return tag("p", typeset(answer), tag("span", typeset(behind), class_="behind") if behind else "")


def _alone(study: Study) -> Iterator[str]:
    """Yield a sentence per mechanism if nothing can be compared."""
    for row in study.at_middle(study.summary).to_dict("records"):
        loss, error = (_preferred(row, name) for name in LOSS_AND_ERROR)
        name = f"{row['lppm']} ({row['at']})" if row["at"] else row["lppm"]
        if row["attack"]:
            yield f"Against {row['attack']}, {name}: adversary error {error:.2f} km at {loss:.2f} km of quality loss."
        else:
            yield f"{name} has {loss:.2f} km of quality loss. This run has no attack."


def _preferred(row: Mapping[Any, Any], name: str) -> float:
    return float(row[f"expected_{name}"] if pd.notna(row[f"expected_{name}"]) else row[name])


def _warnings(result: Result) -> list[str]:
    manifest = result.manifest
    points = result.points()
    return [
        *sentences.warnings(manifest),
        *calibrations.limits(manifest, points),
        *sentences.still_wide(manifest, points),
    ]


def run(study: Study) -> Markup:
    """Return the configuration: scenario, seed, versions, digest, and the command that reproduces the run."""
    parts: list[Markup] = []
    for name, result in zip(study.names, study.results, strict=True):
        parts += [tag("h3", name)] if study.compared else []
        parts.append(tag("dl", *_facts(result)))
        manifest = result.manifest
        notes = [
            *sentences.repetitions(manifest),
            *sentences.detected_changes(manifest),
            *sentences.hidden_channels(manifest.scenario),
            *sentences.memories(manifest.scenario, manifest.secrets),
            *_failures(manifest),
        ]
        parts.append(bulleted(notes, "notes"))
        whole = yaml.safe_dump(manifest.recorded_scenario, sort_keys=False, allow_unicode=True, width=100)
        parts.append(
            tag("details", tag("summary", "Complete scenario including defaults"), tag("pre", whole, tabindex=0))
        )
    return joined(parts)


def _facts(result: Result) -> Iterator[Markup]:
    manifest = result.manifest
    command = ["lppm-sim", "run", result.run.describe("manifest.json"), "-o", "again"]
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    facts: dict[str, object] = {
        "scenario": manifest.scenario.name,
        "seed": manifest.seed,
        "replications": _replications(manifest.scenario),
        "digest": tag("code", manifest.digest),
        "reproduce with": tag("code", shlex.join(command)),
        "lppm-sim": f"{manifest.lppm_sim}, kernels {manifest.kernels}",
        "libraries": versions,
    }
    if manifest.files:
        facts["files"] = joined(
            tag("div", f"{name} ", tag("code", f"sha256 {digest[:16]}…")) for name, digest in manifest.files.items()
        )
    for name, value in facts.items():
        yield tag("dt", name)
        yield tag("dd", value)


def _replications(scenario: Scenario) -> str:
    repeat = scenario.replications
    if isinstance(repeat, RepeatUntil):
        return f"until means are known within ± {repeat.until_half_width_km:g} km, at most {repeat.at_most}"
    return str(repeat)


def _failures(manifest: RunManifest) -> list[str]:
    return [
        f"Failed: {failed_where(failure)}: {failure['error']}. To reproduce: {failure['command']}"
        for failure in manifest.failures
    ]


def _differences(study: Study) -> Markup:
    """Return a table of the differences between the scenarios of the runs."""
    flat = [dict(_flat(result.manifest.recorded_scenario)) for result in study.results]
    paths = sorted(set().union(*flat), key=lambda path: (path.split(".")[0] not in OF_USERS, path))
    different = [path for path in paths if len({repr(own.get(path)) for own in flat}) > 1 and path != "name"]
    if not different:
        return tag("p", "The scenarios of these runs are identical.")
    heads = [tag("th", name, scope="col", data_type="text") for name in ("setting", *study.names)]
    rows = [
        tag("tr", tag("th", path, scope="row"), *(tag("td", _setting(own.get(path))) for own in flat))
        for path in different[:_MOST_DIFFERENCES]
    ]
    more = f" (first {len(rows)} shown)" if len(different) > len(rows) else ""
    return tag(
        "details",
        tag("summary", f"Differences between the scenarios: {len(different)} settings{more}"),
        sortable(heads, rows),
        open="" if len(different) <= _FEW_DIFFERENCES else None,
    )


def _setting(value: Any) -> str:
    return "–" if value is None else str(value)


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a scenario with their paths; list items are identified by their names."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and all(isinstance(item, dict) for item in value):
        for i, item in enumerate(value):
            yield from _flat(item, f"{path}.{item.get('name', i)}")
    else:
        yield path, value
