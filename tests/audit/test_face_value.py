"""The note on reports that are nearer to the true place than the estimates of attacks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sim.audit.attack import AttackResult, attack
from sim.audit.displacement import Sample
from sim.audit.face_value import face_value_note, literal_is_nearer
from sim.audit.selection import Finding, identify
from tests.audit.mechanisms import Release, identity, laplace
from tests.audit.movement import people


def _attacked(release: Release, sample: Sample | None = None) -> tuple[AttackResult, Finding]:
    rng = np.random.default_rng(6)
    released = release(people(rng, users=8, pairs=400) if sample is None else sample, rng)
    finding = identify(released)
    result = attack(released, finding)
    assert result is not None
    return result, finding


def test_exact_reports_are_nearer_than_the_cells_of_the_attack() -> None:
    note = face_value_note(*_attacked(identity))
    assert note is not None
    assert "cells of" in note


def test_attacks_with_a_valid_model_need_no_note() -> None:
    assert face_value_note(*_attacked(laplace(1500))) is None


def test_new_places_explain_a_wrong_prior() -> None:
    rng = np.random.default_rng(6)
    sample = people(rng, users=8, pairs=400)
    later = np.arange(400) % 50 >= 25
    away = replace(sample, lat=sample.lat + 0.3 * later, sent_lat=sample.lat + 0.3 * later)
    result, finding = _attacked(laplace(200), away)
    assert result.new_places > 0.9
    nearer = replace(result, estimates_m=result.estimates_m | dict.fromkeys(result.attacks[1:], result.true_xy_m + 5e3))
    note = face_value_note(nearer, finding)
    assert note is not None
    assert "was not before" in note


def test_one_better_attack_suffices() -> None:
    result, _ = _attacked(identity)
    assert literal_is_nearer(result)
    better = replace(result, estimates_m=result.estimates_m | {"markov, own past": result.true_xy_m})
    assert not literal_is_nearer(better)
