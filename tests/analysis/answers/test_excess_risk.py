"""Intervals of success rates and the excess risk over a control attack."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sim.analysis.answers.excess_risk import Rate, excess_risk, paired_excess_risk, wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # Newcombe (1998), Statistics in Medicine 17, 857-872, table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_published(successes: int, trials: int, low: float, high: float) -> None:
    rate = wilson(successes, trials)
    assert rate.low == pytest.approx(low, abs=6e-5)
    assert rate.high == pytest.approx(high, abs=6e-5)
    mirrored = wilson(trials - successes, trials)
    assert mirrored[1:] == pytest.approx((1 - rate.high, 1 - rate.low))


def test_excess_risk_as_giomi_et_al() -> None:
    """Errors are propagated with the derivatives 1 / (1 - c) and (a - 1) / (1 - c)^2."""
    attack, control = wilson(60, 100), wilson(20, 100)
    risk = excess_risk(attack, control)
    assert risk.value == pytest.approx(0.5)
    errors = [(attack.value - attack.low) / 0.8, (control.high - control.value) * 0.4 / 0.64]
    assert risk.value - risk.low == pytest.approx(math.hypot(*errors))


def test_excess_risk_covers_the_truth() -> None:
    rng = np.random.default_rng(3)
    attacks, controls = rng.binomial(200, 0.6, 2_000), rng.binomial(200, 0.3, 2_000)
    risks = [excess_risk(wilson(a, 200), wilson(c, 200)) for a, c in zip(attacks, controls, strict=True)]
    covered = np.mean([risk.low <= 0.3 / 0.7 <= risk.high for risk in risks])
    assert 0.93 <= covered <= 0.97


def test_no_excess_without_room() -> None:
    assert np.isnan(excess_risk(Rate(1, 1, 1), Rate(1, 1, 1)).value)
    assert np.isnan(paired_excess_risk(np.ones(5), np.ones(5)).value)
    assert np.isnan(wilson(0, 0).value)
    assert excess_risk(Rate(0.2, 0.1, 0.3), Rate(0.6, 0.5, 0.7)).value == pytest.approx(-1.0)


def test_paired_excess_covers_the_truth() -> None:
    """Users differ, so attack and control of a user are correlated."""
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(500):
        level = rng.beta(2, 5, 60)
        control = rng.binomial(20, level) / 20
        attack = rng.binomial(20, level + 0.5 * (1 - level)) / 20
        risk = paired_excess_risk(attack, control)
        covered += risk.low <= 0.5 <= risk.high
    assert 0.92 <= covered / 500 <= 0.98
