"""Attacks that learn an offset or repeated reports from the user's own past."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sim.audit.answers import answers
from sim.audit.attack import ATTACKS, attack
from sim.audit.displacement import M_PER_DEGREE, Plane, Sample
from sim.audit.memory_attack import MEMORY_ATTACK, estimates_from_memory
from sim.audit.offset import OffsetFit
from sim.audit.selection import identify
from tests.audit.mechanisms import Release, constant_offset, drifting_offset, in_turn, laplace, memoised_by_place
from tests.audit.mechanisms import metric_grid as snapped
from tests.audit.movement import people


def _within(release: Release, radius_m: float) -> dict[str, float]:
    rng = np.random.default_rng(6)
    sample = release(people(rng, users=5, pairs=400), rng)
    result = attack(sample, identify(sample))
    assert result is not None
    return {one.attack: one.value for one in answers(result) if one.metric == "within" and one.radius_m == radius_m}


def test_constant_offset_is_revealed_by_the_past() -> None:
    within = _within(constant_offset(800), 100)
    assert within[MEMORY_ATTACK] == 1
    assert within[ATTACKS[0]] < 0.5


def test_drifting_offset_is_revealed_for_its_time_constant() -> None:
    slow, fast = (_within(drifting_offset(800, hours), 500) for hours in (5000, 12))
    assert slow[MEMORY_ATTACK] > 0.9 > fast[MEMORY_ATTACK] + 0.2
    assert fast[MEMORY_ATTACK] == pytest.approx(fast[ATTACKS[0]], abs=0.1)


def test_offset_before_a_grid_is_revealed_up_to_the_cell() -> None:
    within = _within(in_turn(constant_offset(1500), snapped(500)), 500)
    assert within[MEMORY_ATTACK] > 0.95 > within[ATTACKS[0]] + 0.3


def test_repeated_reports_are_looked_up() -> None:
    within = _within(memoised_by_place(laplace(800), 3), 100)
    assert within[MEMORY_ATTACK] > within[ATTACKS[3]] + 0.05


def test_memoryless_mechanisms_have_no_such_attack() -> None:
    assert MEMORY_ATTACK not in _within(laplace(300), 100)


def test_known_offset_decays_with_the_time_constant() -> None:
    fit = OffsetFit(sd_m=100.0, drift_m=20.0, white_m=0.0, lattice=None)
    place, time_s = np.zeros(2), np.array([0.0, fit.time_constant_h * 3600])
    sample = Sample(np.zeros(2, dtype=np.int64), time_s, place, place, place, np.full(2, 100 / M_PER_DEGREE))
    past, target = sample.rows(np.array([0])), sample.rows(np.array([1]))
    estimate = estimates_from_memory(fit, past, target, Plane(0.0, 0.0), np.zeros((1, 2)))
    assert estimate[0] == pytest.approx([100 - 100 / math.e, 0])
