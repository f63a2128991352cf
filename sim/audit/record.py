"""The result of an audit, and its JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from sim.analysis.answers.home_exposure import Night
from sim.audit.answers import Answer, answers
from sim.audit.attack import AttackResult, attack
from sim.audit.face_value import face_value_note
from sim.audit.home_curves import HomeCurve
from sim.audit.input_warnings import exchange_warning, unmatched_warning
from sim.audit.kernel import Kernel, empirical_kernel
from sim.audit.nights import no_nights_note, users_without_nights
from sim.audit.noise import NoiseFit
from sim.audit.pairs import Pairs
from sim.audit.selection import MOST_COMPARED_PAIRS, Finding, identify
from sim.audit.user_answers import UserAnswer, answer_record, curve_record, user_answers
from sim.audit.wording import conclusion, grid_in_words, hypothesis_in_words, kind_in_words
from sim.audit.zone import only_first

SCHEMA_VERSION = 1
_MOST_HOURS_OFF = 2.5
FEW_PAIRS = 300
"""Number of pairs below which the page warns that little is known."""


@dataclass(frozen=True)
class Audit:
    """Everything that the page and the JSON file show."""

    names: tuple[str, ...]
    """Names of the input files."""
    pairs: Pairs
    finding: Finding
    kernel: Kernel
    attacked: AttackResult | None
    answers: tuple[Answer, ...]
    user_answers: tuple[UserAnswer, ...]
    home_curves: tuple[HomeCurve, ...]
    night: Night
    notes: tuple[str, ...]


def audit(pairs: Pairs, names: Sequence[str], *, night: Night = Night()) -> Audit:  # noqa: B008
    """Identify the mechanism of some pairs and attack it; homes are where users are at night."""
    finding = identify(pairs.sample, complete=pairs.time_shift_s != 0)
    attacked = attack(pairs.sample, finding)
    answered = () if attacked is None else tuple(answers(attacked))
    users, curves = (
        ([], []) if attacked is None else user_answers(attacked, pairs.sample, timed=pairs.timed, night=night)
    )
    attack_notes = () if attacked is None else attacked.notes
    literal = None if attacked is None else face_value_note(attacked, finding)
    exchanged = exchange_warning(
        pairs.sample, timed=pairs.timed, noise=_is_continuous_noise(finding), one_file=len(names) == 1
    )
    warnings = (*pairs.warnings, *([exchanged] if exchanged else ()))
    notes = (
        *warnings,
        *([literal] if literal else ()),
        *attack_notes,
        *_notes(pairs, finding),
        *_night_notes(pairs, night),
    )
    kernel = empirical_kernel(pairs.sample)
    return Audit(tuple(names), pairs, finding, kernel, attacked, answered, tuple(users), tuple(curves), night, notes)


def _is_continuous_noise(finding: Finding) -> bool:
    fit = finding.fit
    return isinstance(fit, NoiseFit) and fit.lattice is None and not finding.rejected


def _night_notes(pairs: Pairs, night: Night) -> Iterator[str]:
    """Warn of users without positions at night, and if the longitude suggests another local time than the nights."""
    if note := no_nights_note(pairs, night):
        yield note
    hours = round(float(np.median(pairs.sample.lon)) / 15)
    if pairs.timed and abs(hours - night.utc_offset_h) > _MOST_HOURS_OFF:
        yield (
            f"Nights, and with them homes, assume that local time is UTC{night.utc_offset_h:+g}, while the longitude "
            f"suggests about UTC{hours:+d}: if the times are UTC, use --utc-offset {hours}."
        )


def _notes(pairs: Pairs, finding: Finding) -> list[str]:
    """Return the warnings about rows that were not used, and about small samples."""
    matching = pairs.matching
    notes = []
    differ = pairs.time_shift_s != 0 or bool(unmatched_warning(matching))
    if matching.without_truth and not differ:
        notes.append(f"{matching.without_truth:,} sent rows have no true row and are not used.")
    if matching.without_report and not differ and finding.presence.kind == "all":
        notes.append(
            f"{matching.without_report:,} of {matching.true_rows:,} true rows have no sent position. They are only the "
            f"{'first' if only_first(~pairs.sample.sent, pairs.sample.user) else 'last'} of each user's recording: the "
            "files seem to cover different times, so they are not counted as dropped."
        )
    elif matching.without_report and not differ:
        notes.append(
            f"{matching.without_report:,} of {matching.true_rows:,} true rows have no sent position: counted as "
            "dropped by the mechanism. If the files cover different times, that is not the mechanism."
        )
    if matching.repeated:
        notes.append(
            f"{matching.repeated:,} rows repeat user and time of another row; they are matched in their order."
        )
    if matching.pairs > MOST_COMPARED_PAIRS:
        notes.append(
            f"The mechanism is identified from the first {MOST_COMPARED_PAIRS:,} pairs by user; zones, kernel and "
            "attacks use all."
        )
    if not pairs.timed:
        notes.append("The files have no times: time constants count rows as seconds, and gaps are unknown.")
    if matching.pairs < FEW_PAIRS:
        notes.append(f"With {matching.pairs:,} pairs little is known: mind the intervals and the other candidates.")
    rivals = [
        one
        for one in finding.candidates
        if not one.fit.kind.endswith(finding.fit.kind) and one.difference < max(2 * one.error, 1 / matching.pairs)
    ]
    if rivals and not finding.rejected:
        kinds = dict.fromkeys(kind_in_words(one.fit.kind) for one in rivals)
        notes.append(f"Not distinguishable with these pairs: {'; '.join(kinds)}.")
    return notes


def as_json(result: Audit) -> dict[str, Any]:
    """Return the content of the JSON file; numbers that are not finite are null."""
    finding = result.finding
    content = {
        "schema_version": SCHEMA_VERSION,
        "lppm_sim": version("lppm-sim"),
        "files": list(result.names),
        "rows": asdict(result.pairs.matching),
        "users": len(result.pairs.users),
        "kind": finding.kind,
        "conclusion": conclusion(finding),
        "rejected": finding.rejected,
        "nearest_known": finding.fit.kind,
        "parameters": [asdict(one) for one in finding.estimates],
        "resolution": None if finding.lattice is None else grid_in_words(finding.lattice),
        "candidates": [
            {
                "kind": one.fit.kind,
                "description": hypothesis_in_words(one.fit),
                "log_likelihood": one.log_likelihood,
                "difference": one.difference,
                "error": one.error,
                "parameters": {estimate.name: estimate.value for estimate in one.fit.estimates},
            }
            for one in finding.candidates
        ],
        "checks": [asdict(one) for one in finding.checks],
        "zones": [
            {key: value for key, value in asdict(zone).items() if key != "user"}
            | {"user": result.pairs.users[zone.user]}
            for zone in finding.presence.zones
        ],
        "kernel": {
            "edges_m": result.kernel.edges_m.tolist(),
            "counts": result.kernel.counts.tolist(),
            "beyond": result.kernel.beyond,
            "mean_distance_m": result.kernel.mean_distance_m,
            "distance_quantiles_m": {f"{q:g}": v for q, v in result.kernel.distance_quantiles_m.items()},
        },
        "attack": None
        if result.attacked is None
        else {"cell_m": result.attacked.grid.cell_m, "reports": len(result.attacked.sample)},
        "answers": [asdict(one) for one in result.answers],
        "night": asdict(result.night) | {"users_without_nights": users_without_nights(result.pairs, result.night)},
        "user_answers": [answer_record(one) for one in result.user_answers],
        "homes_known": [curve_record(one) for one in result.home_curves if not one.needs],
        "time_shift_s": result.pairs.time_shift_s,
        "notes": list(result.notes),
    }
    return _finite(content)  # type: ignore[no-any-return]


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
