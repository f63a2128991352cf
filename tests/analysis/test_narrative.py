"""Sentences about a run: warnings, comparisons, replications, changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sim
from sim.analysis import narrative as sentences
from sim.storage.manifest import RunManifest
from tests.support import MakeScenario, a_manifest

Capture = pytest.CaptureFixture[str]


def note(**changes: Any) -> dict[str, Any]:
    plain = {"point": 0, "replication": 0, "lppm": "PEB", "lppm_fallbacks": 0, "attack_fallbacks": {"x": 0, "y": 0}}
    return plain | {"worst_gap": None} | changes


def manifest(
    *notes: dict[str, Any], gap: float = 1e-6, sweep: dict[str, Any] | None = None, **changes: Any
) -> RunManifest:
    lppms = [
        {"name": "PEB", "belief": {"kind": "estimated_profile", "gap": gap}, "design": {"kind": "identity"}},
        {"name": "SP", "belief": {"kind": "fixed_profile"}, "design": {"kind": "identity"}},
    ]
    return a_manifest(notes=list(notes), scenario={"lppms": lppms, "sweep": sweep or {}}, **changes)


def repetition(lppm: str, replications: int, half_widths_km: dict[str, float], point: int = 0) -> dict[str, Any]:
    target = {"until_half_width_km": 0.02, "half_widths_km": half_widths_km}
    return {"point": point, "lppm": lppm, "replications": replications, "exact": False} | target


def test_regular_run_has_no_warning() -> None:
    assert sentences.warnings(manifest()) == []
    assert sentences.warnings(manifest(note(worst_gap=9e-7), note(lppm="SP"))) == []


def test_warnings_are_summed_over_points_and_replications() -> None:
    notes = [
        note(lppm_fallbacks=2, attack_fallbacks={"x": 0, "y": 3}),
        note(replication=1, lppm_fallbacks=5, attack_fallbacks={"x": 0, "y": 4}),
        note(lppm="SP", attack_fallbacks={"x": 1, "y": 0}),
        note(lppm="SP", point=1, attack_fallbacks={"z": 6}),
    ]
    assert sentences.warnings(manifest(*notes)) == [
        "PEB: 7 reports had probability zero under its belief and reset it",
        "y against PEB: 7 reports had probability zero under the adversary's belief",
        "x against SP: 1 reports had probability zero under the adversary's belief",
        "z against SP: 6 reports had probability zero under the adversary's belief",
    ]


def test_missed_optimality_gap_is_reported() -> None:
    notes = [note(worst_gap=2e-7), note(replication=1, worst_gap=0.034), note(lppm="SP")]
    assert sentences.warnings(manifest(*notes)) == [
        "PEB: its estimates reached an optimality gap of 0.034 (target: 1e-06)"
    ]
    assert sentences.warnings(manifest(*notes, gap=0.1)) == []
    assert sentences.warnings(manifest(*notes, sweep={"lppms.PEB.belief.gap": [1e-6, 0.1]})) == []


def test_notes_without_attacks_give_no_warning() -> None:
    assert sentences.warnings(manifest(note(attack_fallbacks={}))) == []


def test_large_dropped_probability_of_a_secret_is_a_warning() -> None:
    dropped = [note(attack_dropped={"x": 0.25, "y": 0.01}), note(point=1, attack_dropped={"x": 0.5, "y": 0.04})]
    (text,) = sentences.warnings(manifest(*dropped))
    assert text.startswith("x against PEB: ")
    assert "50% on average over reports" in text


def test_detected_changes_are_reported_but_not_as_warnings() -> None:
    notes = [note(lppm_alarms=1), note(point=1, lppm_alarms=2000), note(lppm="SP", lppm_alarms=0)]
    assert sentences.detected_changes(manifest(*notes)) == ["PEB detected 2,001 changes in its released reports."]
    assert sentences.detected_changes(manifest(notes[0])) == ["PEB detected 1 change in its released reports."]
    assert sentences.warnings(manifest(*notes)) == []


def test_unfinished_run_gives_a_warning() -> None:
    (warning,) = sentences.warnings(manifest(finished=False))
    assert "not finished" in warning


def test_comparisons_are_made_within_equal_circumstances(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(
        lppms=["SP-Exp", "PEB-Exp"],
        attacks=["markov"],
        sweep={"lppms.*.design.epsilon_per_km": [0.2, 3.0], "users.count": [2, 3]},
    )
    result = sim.run(scenario, out=tmp_path / "run", figures=False)
    comparisons = list(sentences.comparisons(sentences.comparable(result.per_user(), result.points())))
    assert [sentence.split(":")[0] for sentence in comparisons] == ["With count 2", "With count 3"]
    for sentence in comparisons:
        assert "SP-Exp" in sentence
        assert "PEB-Exp" in sentence


def test_number_of_replications_is_reported() -> None:
    fixed = {"point": 0, "lppm": "PEB", "replications": 3, "exact": False}
    once = {"point": 0, "lppm": "SP", "replications": 1, "exact": True}
    assert sentences.repetitions(manifest(repetitions=[fixed])) == []
    assert sentences.repetitions(manifest(repetitions=[fixed, once, once | {"point": 1}])) == [
        "Simulated once, because movements are recorded, nothing learns and expected metrics are exact: SP."
    ]
    repetitions = [repetition("A", 5, {}), repetition("A", 31, {}, point=1), repetition("B", 12, {}), once]
    assert sentences.repetitions(manifest(repetitions=repetitions))[1:] == [
        "Replications until all means over these users are known within ± 0.02 km: A 5 to 31, B 12."
    ]


def test_metrics_above_the_target_half_width_are_reported_widest_first() -> None:
    repetitions = [
        repetition("A", 200, {"Q-bar": 0.01, "P_AE x": 0.031}),
        repetition("A", 200, {"Q-bar": 0.05, "P_AE x": 0.019}, point=1),
        repetition("B", 12, {"Q-bar": 0.02}),
    ]
    swept = pd.DataFrame({"point": [0, 1], "lppms.A.design.epsilon_per_km": [0.5, 2.0]})
    end = "km after the maximum of 200 replications (target: 0.02 km)"
    ended = manifest(repetitions=repetitions)
    assert sentences.still_wide(ended, swept) == [
        f"Q-bar of A (epsilon_per_km 2) has a half-width of 0.05 {end}",
        f"P_AE x of A (epsilon_per_km 0.5) has a half-width of 0.031 {end}",
    ]
    assert sentences.still_wide(ended.updated(finished=False), swept) == []
    many = [repetition("A", 200, {f"P_AE {i}": 1.0 + i}, point=i % 2) for i in range(9)]
    assert sentences.still_wide(manifest(repetitions=many), swept)[5:] == [
        "4 more metrics miss their target half-width: see `repetitions` in manifest.json"
    ]
