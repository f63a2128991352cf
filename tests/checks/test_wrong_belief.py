"""Each wrong belief fails the contract check that looks for it, and no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.belief.fixed_profile import FixedProfile
from sim.checks.bench import Bench
from sim.interfaces import BeliefCapabilities, FloatArray
from tests.checks.contract import Make, Wrong, assert_fails, capabilities, failing


class Good(FixedProfile):
    """A good belief, to be spoiled."""

    fixed = False

    def __init__(self, bench: Bench) -> None:
        super().__init__(profile=bench.statistics.profile)


class CountsCalls(Good):
    calls = 0

    def prior(self, time_s: int) -> FloatArray:
        self.calls += 1
        return super().prior(time_s) if self.calls % 2 else np.full(12, 1 / 12)


class EatsTheLikelihood(Good):
    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        posterior = super().observe(time_s, likelihood)
        likelihood *= 0.5
        return posterior


class Unnormalised(Good):
    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        return self.prior(time_s) * likelihood


class OneCellShort(Good):
    def prior(self, time_s: int) -> FloatArray:
        return np.full(11, 1 / 11)

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        return np.full(12, 1 / 12)


class CannotBeCopied(Good):
    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.update = lambda: None


class ForgetsWhenCopied(Good):
    seen = 0

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        self.seen += 1
        share = 1 / self.seen
        return share * super().observe(time_s, likelihood) + (1 - share) / 12

    def __getstate__(self) -> dict[str, Any]:
        return {"_profile": self._profile, "fallbacks": 0}


class LearnsButSaysFixed(Good):
    fixed = True

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        self._profile = super().observe(time_s, likelihood)
        return self._profile


WRONG: list[Wrong] = [
    (CountsCalls, {"belief_changes_by_observing_alone": "two calls of prior(0) differ"}),
    (EatsTheLikelihood, {"belief_changes_by_observing_alone": "observe changed the likelihood"}),
    (Unnormalised, {"belief_is_a_distribution": "the posterior at 0 s must sum to 1 (within 1e-09), got"}),
    (OneCellShort, {"belief_is_a_distribution": "the prior at 0 s must have shape (12,), got (11,)"}),
    (CannotBeCopied, {"belief_can_be_copied": "raised "}),
    (ForgetsWhenCopied, {"belief_can_be_copied": "the copy's posterior at 1800 s differs"}),
    (LearnsButSaysFixed, {"belief_changes_by_observing_alone": "fixed = True, but observe changed"}),
]


@pytest.mark.parametrize("make", [Good])
def test_the_base_of_the_wrong_ones_is_right(make: Make) -> None:
    assert failing("belief", make) == {}


@pytest.mark.parametrize(("make", "problems"), WRONG)
def test_a_wrong_belief_fails_the_check_that_looks_for_it(make: Make, problems: dict[str, str]) -> None:
    assert_fails("belief", make, problems)


class FallsBack(Good):
    """A good belief that falls back to other priors for reports without mass."""

    priors = (np.eye(12)[6], np.full(12, 1 / 12))

    @property
    def fallback_priors(self) -> tuple[FloatArray, ...]:
        return self.priors

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        joints = (prior * likelihood for prior in (self.prior(time_s), *self.priors))
        joint = next(joint for joint in joints if joint.sum() > 0)
        return np.asarray(joint / joint.sum())


class FallsBackInAnotherOrder(FallsBack):
    @property
    def fallback_priors(self) -> tuple[FloatArray, ...]:
        return self.priors[::-1]


class CountsDown(Good):
    alarms = 3

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        self.alarms -= 1
        return super().observe(time_s, likelihood)


class CountsInShares(Good):
    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        self.fallbacks = 0.5  # type: ignore[assignment]
        return np.full(12, 1 / 12)


class Complete(FallsBack):
    """A good belief with all capabilities."""

    fixed = True
    alarms = 1
    worst_gap = 1e-6


def spoiled(**attributes: Any) -> Make:
    """Return how to make a good belief with other attributes, which can be pickled."""

    def make(bench: Bench) -> Good:
        belief = Good(bench)
        vars(belief).update(attributes)
        return belief

    return make


def describing(words: str) -> dict[str, str]:
    return {"belief_describes_itself": words}


WRONG_CAPABILITIES: dict[str, list[Wrong]] = {
    "fixed": [
        (
            LearnsButSaysFixed,
            {"belief_changes_by_observing_alone": "fixed = True, but observe changed its prior"},
        ),
        (spoiled(fixed="never"), describing("`fixed` must be True or False, got 'never'")),
        (spoiled(fixed=len), describing("`fixed` must be True or False, got <built-in function len>")),
    ],
    "fallbacks": [(CountsInShares, describing("`fallbacks` must be a whole number, got 0.5"))],
    "alarms": [(CountsDown, describing("`alarms` must be in [2, inf), got 1"))],
    "worst_gap": [
        (spoiled(worst_gap="small"), describing("`worst_gap` must be None or a number in [0, inf), got 'small'")),
        (spoiled(worst_gap=float("nan")), describing("in [0, inf), got nan")),
    ],
    "fallback_priors": [
        (
            spoiled(fallback_priors=(np.ones(12),)),
            {"belief_uses_its_fallback_priors": "a fallback prior must sum to 1"},
        ),
        (
            FallsBackInAnotherOrder,
            {"belief_uses_its_fallback_priors": "is not that of the first fallback prior with mass"},
        ),
    ],
}


def test_a_belief_with_capabilities_passes() -> None:
    assert failing("belief", Complete) == {}


@pytest.mark.parametrize(("make", "problems"), [wrong for wrongs in WRONG_CAPABILITIES.values() for wrong in wrongs])
def test_a_wrong_capability_fails_its_check(make: Make, problems: dict[str, str]) -> None:
    assert_fails("belief", make, problems)


def test_every_capability_has_a_wrong_class() -> None:
    assert WRONG_CAPABILITIES.keys() == capabilities(BeliefCapabilities)
