"""What the page says: the answer in sentences and a table, and what was run."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
import yaml

from sim.analysis import narrative as sentences
from sim.analysis.budgets import exceeded
from sim.analysis.metrics import METRICS, recorded_metrics, unrecorded_metrics
from sim.analysis.result import Result
from sim.analysis.statistics import SPREAD
from sim.analysis.summary import LOSS_AND_ERROR
from sim.analysis.sweep_labels import path_headings, swept_value
from sim.analysis.tables import format_metric, spread_note
from sim.analysis.tournament import STANDINGS
from sim.report.markup import Markup, escaped, joined, tag
from sim.report.study import OF_PEOPLE, Study
from sim.storage.errors import NotApplicable
from sim.storage.status import failed_where

_FEW_DIFFERENCES, _MOST_DIFFERENCES = 8, 40
_MOST_ATTACKS = 5
"""With more, a tournament's standings take the place of a sentence on each attack."""
_SHADES = 8
_TALL = 40
"""A table of more rows than this scrolls."""


def title(study: Study) -> str:
    """Return what the page is called."""
    *others, last = study.names
    return f"{', '.join(others)} and {last}" if others else last


def lead(study: Study) -> Markup:
    """Return the lines below the title: what was simulated, and how much."""
    lines = []
    for name, result in zip(study.names, study.results, strict=True):
        summary = study.summary[study.summary["run"] == name]
        counted = summary.drop_duplicates(["lppm", "point"])["queries"].sum()
        described = str(result.manifest["scenario"].get("description") or "").strip()
        about = f"{name}:" if study.compared else f"{described.rstrip('.')}." if described else ""
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
    """Return the sentences that say which mechanism protects best, and what to beware of."""
    table = tournament(study)
    told: list[str] = []
    if not table.empty:
        told = [sentences.tournament(table, *study.results[0].tournament_leads(table))]
    in_part = []
    for runs in study.people.values() if table.empty else ():
        own = study.users[study.users["run"].isin(runs)]
        both = own[own.groupby("user")["run"].transform("nunique") == len(runs)]
        told += sentences.comparisons(both)
        if len(both) < len(own):
            in_part.append(
                f"{', '.join(runs)}: compared over the {both['user'].nunique()} users whom all of them have."
            )
    beware = [
        f"{name}: {warning}" if study.compared else warning
        for name, result in zip(study.names, study.results, strict=True)
        for warning in _warnings(result)
    ]
    if len(study.people) > 1:
        groups = " | ".join(", ".join(runs) for runs in study.people.values())
        beware.insert(0, f"These runs are of different people ({groups}): only within a group are sentences told.")
    beware += in_part
    note = f"{_said_of_spread(study.summary, study.units)}; differences are paired by user."
    note = note[0].upper() + note[1:]
    return joined(
        [
            *(_sentence(line) for line in told or _alone(study)),
            tag("p", note, class_="note"),
            _list(beware, "warning"),
            _differences(study) if study.compared else "",
        ]
    )


def _sentence(line: str) -> Markup:
    """Return a sentence: its first part is the answer, what follows a semicolon are those behind."""
    answer, _, behind = line.partition("; ")
    return tag("p", _typeset(answer), tag("span", _typeset(behind), class_="behind") if behind else "")


def _typeset(line: str) -> Markup:
    """Return a sentence as it is set in print: the symbol of the error, and no line between a number and its unit."""
    kept = re.sub(r"(?<=\d) (?=km\b|±)|(?<=±) (?=\d)", "\u00a0", line)
    return Markup(escaped(kept).replace("P_AE", tag("i", "P", tag("sub", "AE"))))


def _alone(study: Study) -> Iterator[str]:
    """Yield what there is to say where nothing can be compared."""
    for row in study.at_middle(study.summary).to_dict("records"):
        loss, error = (_preferred(row, name) for name in LOSS_AND_ERROR)
        name = f"{row['lppm']} ({row['at']})" if row["at"] else row["lppm"]
        if row["attack"]:
            yield f"Against {row['attack']}, {name} gives P_AE {error:.2f} km at {loss:.2f} km of quality loss."
        else:
            yield f"{name} costs {loss:.2f} km of quality loss. There is no attack in this run."


def _preferred(row: Mapping[Any, Any], name: str) -> float:
    return float(row[f"expected_{name}"] if pd.notna(row[f"expected_{name}"]) else row[name])


def _warnings(result: Result) -> list[str]:
    manifest = result.manifest
    return [*sentences.warnings(manifest), *sentences.still_wide(manifest, result.points())]


def table(study: Study) -> Markup:
    """Return the table of all figures: a row for each mechanism and sweep point, a column for each attack."""
    paths = list(dict.fromkeys(path for result in study.results for path in result.points().columns.drop("point")))
    short, attacks = path_headings(paths), list(dict.fromkeys(filter(None, study.summary["attack"])))
    heads = [
        *([_head("run", "text")] if study.compared else []),
        _head("LPPM", "text"),
        *(_head(short[path], "number", title=path) for path in paths),
        _head(joined(["Q\u0304 ", tag("small", "km")]), "number", title="quality loss"),
        *(
            _head(joined(["P", tag("sub", "AE"), f" {attack} ", tag("small", "km")]), "number", title="adversary error")
            for attack in attacks
        ),
    ]
    rows = []
    over = {name: exceeded(result.manifest) for name, result in zip(study.names, study.results, strict=True)}
    for (run, lppm, point), own in study.summary.groupby(["run", "lppm", "point"], sort=False):
        first = own.iloc[0]
        of_attack = {row["attack"]: row for row in own.to_dict("records")}
        cells = [
            *([tag("td", run)] if study.compared else []),
            tag("th", first["own_lppm"] if study.compared else lppm, scope="row"),
            *(_swept(first.get(path, first.get(f"{path}_swept"))) for path in paths),
            _figure(of_attack[first["attack"]], "quality_loss_km", mark=(point, first["own_lppm"]) in over[str(run)]),
            *(_figure(of_attack.get(attack, {}), "adversary_error_km") for attack in attacks),
        ]
        rows.append(tag("tr", *cells))
    expected = study.summary["expected_quality_loss_km"].notna().any()
    caption = f"Quality loss and adversary error; {_said_of_spread(study.summary, study.units)}"
    caption += "; means expected over the mechanism's noise" if expected else ""
    caption += "; ! above the quality budget asked for" if any(over.values()) else ""
    return _table(heads, rows, f"{caption}.")


def tournament(study: Study) -> pd.DataFrame:
    """Return the standings where so many attacks are tried that a sentence on each would be too much; else nothing."""
    (result, *others) = study.results
    if others or study.summary["attack"].nunique() <= _MOST_ATTACKS:
        return pd.DataFrame()
    return result.tournament()


def standings(study: Study) -> Markup:
    """Return the standings of a tournament: cells are shaded by the error, the strongest attack's is bold."""
    table = tournament(study)
    if table.empty:
        return Markup("")
    attacks = list(table.columns.drop(STANDINGS))
    top = float(table[attacks].to_numpy(float, na_value=0.0).max()) or 1.0
    heads = [_head("rank", "number"), _head("LPPM", "text")]
    heads += [_head(joined(["Q\u0304 ", tag("small", "km")]), "number", title="quality loss")]
    heads += [_head(attack, "number", title="adversary error") for attack in attacks]
    rows = []
    for row in table.to_dict("records"):
        rank = "" if pd.isna(row["rank"]) else row["rank"]
        cells = [tag("td", rank, data_value=rank), tag("th", row["lppm"], scope="row")]
        cells.append(_number(row, "quality_loss_km", 2))
        for attack in attacks:
            error = row[attack]
            said = "\u2013" if pd.isna(error) else f"{error:.2f}"
            shade = None if pd.isna(error) else f"shade-{round(_SHADES * error / top)}"
            inside = tag("b", said) if attack == row["strongest"] else said
            cells.append(tag("td", inside, data_value="" if pd.isna(error) else f"{error:.6g}", class_=shade))
        rows.append(tag("tr", *cells))
    caption = (
        "P_AE in km of every attack on every mechanism, best protection first; bold: the strongest attack, by which "
        "they are ranked. Without a rank: mechanisms that do not reach the loss, at their own, and those against "
        "which some attack cannot be computed."
    )
    return _table(heads, rows, caption)


def _table(heads: Sequence[Markup], rows: Sequence[Markup], caption: str = "") -> Markup:
    """Return a table to be sorted, in a place of its own that scrolls where the table is wider or very long."""
    parts = [tag("caption", _typeset(caption)) if caption else "", tag("thead", tag("tr", *heads)), tag("tbody", *rows)]
    place = "wide tall" if len(rows) > _TALL else "wide"
    return tag("div", tag("table", *parts, class_="sortable"), class_=place)


ADAPTED = {
    "efficiency_before": ("before", 3),
    "efficiency_lowest": ("lowest", 3),
    "efficiency_end": ("at the end", 3),
    "queries_to_recover_median": ("median to recover", 0),
    "queries_to_recover": ("mean to recover", 0),
    "queries_lost": ("lost", 1),
}
"""What the table of an adaptation shows: its columns, their headings and decimals."""


def adaptation(study: Study) -> Markup:
    """Return the table of how mechanisms followed a shift; nothing where there was none, or why it cannot be told."""
    table = study.adapted("summary")
    if table.empty:
        reasons = [found for found in study.adaptations if isinstance(found, NotApplicable)]
        return joined(tag("p", f"How mechanisms adapt cannot be told: {reason}", class_="none") for reason in reasons)
    words = {"at": "with", "attack": "attack"}
    words = {name: heading for name, heading in words.items() if table[name].nunique() > 1}
    heads = [_head("LPPM", "text"), *(_head(heading, "text") for heading in words.values())]
    heads += [_head(heading, "number", title=name) for name, (heading, _) in ADAPTED.items()]
    heads.append(_head("not back", "number", title="users who do not recover"))
    heads.append(_head("together", "number", title="queries until all users together are back"))
    rows = []
    for row in table.to_dict("records"):
        cells = [tag("th", row["lppm"], scope="row"), *(tag("td", row[name]) for name in words)]
        cells += [_number(row, name, digits) for name, (_, digits) in ADAPTED.items()]
        cells.append(tag("td", f"{row['censored']} of {row['users']}", data_value=row["censored"]))
        cells.append(_together(row))
        rows.append(tag("tr", *cells))
    shifts = ", ".join(dict.fromkeys(table["shift"]))
    window, back = table["window"].iloc[0], 100 * table["recovered"].iloc[0]
    caption = (
        f"Efficiency P_AE / Q\u0304 around {shifts}; queries until a window of {window}, the least there is, is "
        f"first back at {back:g} %; queries lost until then; {_said_of_spread(table)}."
    )
    return _table(heads, rows, caption)


def figures(study: Study) -> Markup:
    """Return the table of more figures, those that the runs tell, with words for each, and which they do not tell."""
    table = study.metrics
    shown = recorded_metrics(table)
    words = {"at": "with", "attack": "attack"}
    words = {name: heading for name, heading in words.items() if table[name].astype(bool).any()}
    heads = [_head("LPPM", "text"), *(_head(heading, "text") for heading in words.values())]
    heads += [_head(_heading(name), "number", title=METRICS[name].words) for name in shown]
    rows = []
    for row in table.to_dict("records"):
        cells = [tag("th", row["lppm"], scope="row"), *(tag("td", row[name]) for name in words)]
        rows.append(tag("tr", *cells, *(_number(row, name, METRICS[name].digits) for name in shown)))
    caption = (
        "What mechanisms promise under their own models (own), means over snapshots, beside what happened; "
        f"{_said_of_spread(table)}."
    )
    meanings = [part for name in shown for part in (tag("dt", _heading(name)), tag("dd", METRICS[name].words))]
    return joined(
        [_table(heads, rows, caption), tag("dl", *meanings), _list(_untold(study), "notes"), hindsight(study)]
    )


PAST = {"adversary_error_km": "P_AE km", "online_error_km": "when asked km", "gain_km": "gain km"}
"""What the table of past queries shows: its columns and their headings."""


def hindsight(study: Study) -> Markup:
    """Return the table of what attacks make of past queries; nothing where none came back to them."""
    table = study.hindsight
    if table.empty:
        return Markup("")
    words = {"at": "with", "attack": "attack", "lag": "reports later"}
    words = {name: heading for name, heading in words.items() if table[name].astype(bool).any()}
    heads = [_head("LPPM", "text"), *(_head(heading, "text") for heading in words.values())]
    heads += [_head(_typeset(heading), "number", title=name) for name, heading in PAST.items()]
    rows = []
    for row in table.to_dict("records"):
        cells = [tag("th", row["lppm"], scope="row"), *(tag("td", row[name]) for name in words)]
        rows.append(tag("tr", *cells, *(_number(row, name, 3) for name in PAST)))
    caption = (
        "What attacks make of past queries: the error so many reports later, in the end (final) from all of them, and "
        f"that of the same queries when they were asked; {_said_of_spread(table)}."
    )
    return joined([tag("h3", "The past"), _table(heads, rows, caption)])


def _heading(name: str) -> Markup:
    return _typeset(METRICS[name].heading.replace("Q-bar", "Q\u0304"))


def _untold(study: Study) -> Iterator[str]:
    """Yield what to set for the figures that a run does not tell."""
    for name, result in zip(study.names, study.results, strict=True):
        for line in unrecorded_metrics(result.metrics(), result.manifest):
            yield f"{name}: {line}" if study.compared else line


def _together(row: Mapping[Any, Any]) -> Markup:
    taken = row["pooled_queries_to_recover"]
    if pd.isna(taken):
        return tag("td", data_value="")
    return tag("td", f"> {taken:.0f}" if row["pooled_censored"] else f"{taken:.0f}", data_value=f"{taken:.0f}")


def _number(row: Mapping[Any, Any], name: str, digits: int, *, mark: bool = False) -> Markup:
    """Return a figure with its spread where it has one, and a mark where it is above its budget."""
    if pd.isna(row[name]):
        return tag("td", data_value="")
    if math.isinf(row[name]):
        return tag("td", "\u221e", data_value="Infinity")
    text, around = format_metric(row, name, digits)
    shown = tag("span", f" {around}", class_="pm") if around else ""
    over = tag("b", " !", title="above the quality budget asked for") if mark else ""
    return tag("td", text, shown, over, data_value=f"{row[name]:.6g}")


def _said_of_spread(table: pd.DataFrame, units: str = "users") -> str:
    return spread_note(list(table[SPREAD]), units)


def _head(name: object, kind: str, **attributes: object) -> Markup:
    return tag("th", name, scope="col", data_type=kind, **attributes)


def _swept(value: Any) -> Markup:
    if value is None or pd.isna(value):
        return tag("td", data_value="")
    number = isinstance(value, int | float)
    return tag("td", swept_value(value), data_value=value if number else None)


def _figure(row: Mapping[Any, Any], name: str, *, mark: bool = False) -> Markup:
    """Return a figure with its spread; the expected one where there is one, which has less noise."""
    best = f"expected_{name}" if pd.notna(row.get(f"expected_{name}")) else name
    return _number(row, best, 3, mark=mark) if best in row else tag("td", data_value="")


def run(study: Study) -> Markup:
    """Return what was run: scenario, seed, versions, digest, and the command that repeats it."""
    parts: list[Markup] = []
    for name, result in zip(study.names, study.results, strict=True):
        parts += [tag("h3", name)] if study.compared else []
        parts.append(tag("dl", *_facts(result)))
        manifest = result.manifest
        remarks = (sentences.repetitions, sentences.found_changes, sentences.hidden_channels)
        notes = [*(line for said in remarks for line in said(manifest)), *_failures(manifest)]
        parts.append(_list(notes, "notes"))
        whole = yaml.safe_dump(manifest["scenario"], sort_keys=False, allow_unicode=True, width=100)
        parts.append(tag("details", tag("summary", "The whole scenario, with every default"), tag("pre", whole)))
    return joined(parts)


def _facts(result: Result) -> Iterator[Markup]:
    manifest = result.manifest
    command = ["lppm-sim", "run", result.run.describe("manifest.json"), "-o", "again"]
    versions = ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())
    facts: dict[str, object] = {
        "scenario": manifest["scenario"]["name"],
        "seed": manifest["seed"],
        "replications": _replications(manifest),
        "digest": tag("code", manifest["digest"]),
        "run it again": tag("code", shlex.join(command)),
        "lppm-sim": f"{manifest['lppm_sim']}, kernels {manifest['kernels']}",
        "with": versions,
    }
    if manifest["files"]:
        facts["files"] = joined(
            tag("div", f"{name} ", tag("code", f"sha256 {digest[:16]}…")) for name, digest in manifest["files"].items()
        )
    for name, value in facts.items():
        yield tag("dt", name)
        yield tag("dd", value)


def _replications(manifest: Mapping[str, Any]) -> str:
    said = manifest["scenario"]["replications"]
    if isinstance(said, dict):
        return f"until means are within ± {said['until_half_width_km']:g} km, at most {said['at_most']}"
    return str(said)


def _failures(manifest: Mapping[str, Any]) -> list[str]:
    return [
        f"Failed: {failed_where(failure)}: {failure['error']}. Alone: {failure['command']}"
        for failure in manifest.get("failures", [])
    ]


def _differences(study: Study) -> Markup:
    """Return a table of what differs between the scenarios of the runs."""
    flat = [dict(_flat(result.manifest["scenario"])) for result in study.results]
    paths = sorted(set().union(*flat), key=lambda path: (path.split(".")[0] not in OF_PEOPLE, path))
    different = [path for path in paths if len({repr(own.get(path)) for own in flat}) > 1 and path != "name"]
    if not different:
        return tag("p", "The scenarios of these runs are the same.")
    heads = [_head("setting", "text"), *(_head(name, "text") for name in study.names)]
    rows = [
        tag("tr", tag("th", path, scope="row"), *(tag("td", _said(own.get(path))) for own in flat))
        for path in different[:_MOST_DIFFERENCES]
    ]
    more = f", the first {len(rows)} of them" if len(different) > len(rows) else ""
    return tag(
        "details",
        tag("summary", f"What differs between the runs: {len(different)} settings{more}"),
        _table(heads, rows),
        open="" if len(different) <= _FEW_DIFFERENCES else None,
    )


def _said(value: Any) -> str:
    return "–" if value is None else str(value)


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a scenario with their paths; things in lists go by their names."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and all(isinstance(item, dict) for item in value):
        for i, item in enumerate(value):
            yield from _flat(item, f"{path}.{item.get('name', i)}")
    else:
        yield path, value


def _list(lines: Iterable[str], kind: str) -> Markup:
    items = [tag("li", line) for line in lines]
    return tag("ul", *items, class_=kind) if items else Markup("")
