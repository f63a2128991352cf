"""The page of an audit: one self-contained file in the style of the report, without scripts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from importlib.metadata import version

import numpy as np

from sim.audit.answers import RADII_M, Answer
from sim.audit.attack import FEWEST_ROWS
from sim.audit.figures import answers_figure, distance_figure, kernel_figure
from sim.audit.hypothesis import Estimate
from sim.audit.nights import no_nights_note, users_without_nights
from sim.audit.record import Audit
from sim.audit.selection import SEED
from sim.audit.tables import table
from sim.audit.user_page import home_sentence, users_section
from sim.audit.wording import (
    conclusion,
    grid_in_words,
    hypothesis_in_words,
    interval,
    number,
    parameter_in_words,
    value,
)
from sim.interfaces import FloatArray
from sim.report.markup import Markup, bulleted, joined, tag
from sim.report.page import assets, policy
from sim.rng import stream

_MOST_ZONES = 40
_SECTIONS = {
    "result": "Result",
    "attack": "Attack",
    "users": "Users",
    "mechanism": "Mechanism",
    "kernel": "Displacements",
    "rows": "Rows",
}


def page(result: Audit) -> str:
    """Return the page as HTML."""
    style = assets(("page.css",))
    title = f"Audit of {result.names[-1]}"
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("meta", name_="generator", content=f"lppm-sim {version('lppm-sim')}"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style)),
    ]
    body = [
        tag("header", tag("h1", title), tag("p", _lead(result), class_="lead")),
        tag("nav", *(tag("a", name, " ", href=f"#{key}") for key, name in _SECTIONS.items()), aria_label="Sections"),
        tag("main", *_sections(result)),
    ]
    void = joined(Markup(one.replace("</meta>", "")) for one in head)
    styled = tag("head", void, tag("title", title), Markup(f"<style>{style}</style>"))
    return f'<!doctype html>\n<html lang="en">{styled}{tag("body", *body)}</html>\n'


def _policy(style: str) -> str:
    """Return the content security policy: this style, inline colours, and no scripts."""
    rules = dict(rule.split(" ", 1) for rule in policy(style, "").split("; "))
    rules["script-src"] = "'none'"
    rules["style-src-attr"] = "'unsafe-inline'"
    return "; ".join(f"{name} {allowed}" for name, allowed in rules.items())


def _lead(result: Audit) -> str:
    matching = result.pairs.matching
    users = len(result.pairs.users)
    return f"{matching.pairs:,} pairs of true and sent positions of {users:,} user{'s' if users != 1 else ''}."


def _sections(result: Audit) -> Iterator[Markup]:
    parts = {
        "result": joined(
            [
                *_first_warning(result),
                tag(
                    "div",
                    tag("p", conclusion(result.finding)),
                    *(tag("p", one) for one in result_sentences(result)),
                    class_="sentences",
                ),
                _warnings(result),
            ]
        ),
        "attack": _attack(result),
        "users": _users(result),
        "mechanism": _mechanism(result),
        "kernel": _kernel(result),
        "rows": _rows(result),
    }
    for key, name in _SECTIONS.items():
        yield tag("section", tag("h2", name), parts[key], id=key)


def _warnings(result: Audit) -> Markup:
    return bulleted(result.notes[1:] if result.pairs.time_shift_s else result.notes, "warning")


def _first_warning(result: Audit) -> list[Markup]:
    """Return the warning that stands before the result: shifted times."""
    return [bulleted(result.notes[:1], "warning")] if result.pairs.time_shift_s else []


def result_sentences(result: Audit) -> Iterator[str]:
    """Yield the strongest attack within 564 m beside its control, and the knowledge of homes."""
    shares = [one for one in result.answers if one.metric == "within" and one.radius_m == RADII_M[2]]
    attacks = [one for one in shares if not one.control]
    if not attacks:
        return
    best = max(attacks, key=lambda one: one.value)
    control = max((one for one in shares if one.control), key=lambda one: one.value)
    yield (
        f"The strongest attack ({best.attack}) locates {_share(best)} of the reports within 564 m; without any "
        f"report it is {_share(control)}."
    )
    if sentence := home_sentence(result.user_answers, users_without_nights(result.pairs, result.night)):
        yield sentence


def _share(answer: Answer) -> str:
    if math.isnan(answer.low):
        return f"{answer.value:.0%}"
    return f"{answer.value:.0%} ({answer.low:.0%} to {answer.high:.0%})"


def _attack(result: Audit) -> Markup:
    if result.attacked is None:
        return tag("p", _too_few(), class_="none")
    heads = ["attack", *(f"within {radius:,.0f} m" for radius in RADII_M), "mean error"]
    rows = []
    for name in dict.fromkeys(one.attack for one in result.answers):
        own = [one for one in result.answers if one.attack == name]
        cells = [_share(one) if one.metric == "within" else _error(one) for one in own]
        rows.append([f"{name} (control)" if own[0].control else name, *cells])
    grid = result.attacked.grid
    note = (
        f"The second half of each user's pairs is attacked ({len(result.attacked.sample):,} reports); the first half "
        f"is the past that the adversary knows. Cells of the attack: {grid.cell_m:,.0f} m. Intervals: 95 %, over "
        "users; by Wilson's score, which is wide, for fewer than five users or if all have the same share. Controls "
        "use no report."
    )
    return joined([answers_figure(result.answers), table(heads, rows), tag("p", note, class_="note")])


def _users(result: Audit) -> Markup:
    if result.attacked is None:
        return tag("p", _too_few(), class_="none")
    note = no_nights_note(result.pairs, result.night)
    return users_section(result.user_answers, result.home_curves, result.night, note)


def _too_few() -> str:
    return (
        f"Not enough data: an attack needs {FEWEST_ROWS} pairs in the first halves of the users, and {FEWEST_ROWS} "
        "reports in the second halves."
    )


def _error(answer: Answer) -> str:
    if math.isnan(answer.low):
        return number(answer.value, "m")
    return f"{number(answer.value, 'm')} ({number(answer.low)} to {number(answer.high)})"


def _mechanism(result: Audit) -> Markup:
    finding = result.finding
    parts = [
        tag("h3", "Parameters"),
        _estimates(finding.estimates) if finding.estimates else tag("p", "This mechanism has no parameters."),
    ]
    if finding.lattice is not None:
        parts.append(tag("p", f"The reports lie on a lattice: {grid_in_words(finding.lattice)}.", class_="note"))
    candidates = [
        [
            hypothesis_in_words(one.fit),
            number(one.log_likelihood),
            "best" if one.difference == 0 else f"{one.difference:.4f} ± {1.96 * one.error:.4f}",
        ]
        for one in finding.candidates
    ]
    heads = ["hypothesis", "log-likelihood of a held-out report", "difference to the best"]
    parts += [tag("h3", "Compared hypotheses"), table(heads, candidates)]
    if finding.checks:
        checks = [
            [
                one.name,
                f"{one.statistic:.3f}",
                "–" if one.p_value is None else f"{one.p_value:.2g}",
                "rejected" if one.rejected else "not rejected",
            ]
            for one in finding.checks
        ]
        parts += [tag("h3", "Tests of the best hypothesis"), table(["test", "statistic", "p-value", "result"], checks)]
    zones = finding.presence.zones or getattr(getattr(finding.fit, "presence", None), "zones", ())
    if zones:
        rows = [
            [
                result.pairs.users[zone.user],
                f"{zone.lat:.5f}, {zone.lon:.5f}",
                f"{number(zone.radius_m, 'm')} ({number(zone.low_m)} to {number(zone.high_m)})",
            ]
            for zone in zones[:_MOST_ZONES]
        ]
        more = f" (first {_MOST_ZONES} of {len(zones)})" if len(zones) > _MOST_ZONES else ""
        parts += [tag("h3", f"Zones{more}"), table(["user", "centre", "radius"], rows)]
    return joined(parts)


def _estimates(estimates: Sequence[Estimate]) -> Markup:
    rows = [[parameter_in_words(one.name), value(one), interval(one)] for one in estimates]
    return table(["parameter", "estimate", "95 % interval"], rows)


def _kernel(result: Audit) -> Markup:
    kept = result.pairs.sample.rows(result.pairs.sample.sent)
    dx, dy = result.finding.fit.simulate(kept, stream(SEED, "audit.figure"))
    fitted: FloatArray = np.hypot(dx, dy)
    quantiles = [
        ["furthest" if q == 1 else f"{q:.0%}", number(value, "m")]
        for q, value in result.kernel.distance_quantiles_m.items()
    ]
    return joined(
        [
            kernel_figure(result.kernel),
            distance_figure(kept.distance_m, fitted),
            table(["share of the reports", "within"], quantiles),
        ]
    )


def _rows(result: Audit) -> Markup:
    matching = result.pairs.matching
    facts = {
        "files": ", ".join(result.names),
        "true rows": f"{matching.true_rows:,}",
        "sent rows": f"{matching.sent_rows:,}",
        "pairs": f"{matching.pairs:,}",
        "true rows without a sent position": f"{matching.without_report:,}",
        "sent rows without a true row": f"{matching.without_truth:,}",
        "rows with a repeated time": f"{matching.repeated:,}",
        "users": f"{len(result.pairs.users):,}",
        "lppm-sim": version("lppm-sim"),
    }
    return tag("dl", *(part for name, value in facts.items() for part in (tag("dt", name), tag("dd", value))))
