"""Each incorrect belief fails its contract check and no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.belief.fixed_profile import FixedProfile
from sim.checks.bench import Bench
from sim.inference.transitions import DenseTransitions
from sim.interfaces import BeliefCapabilities, FloatArray
from tests.checks.contract import Incorrect, Make, assert_fails, capabilities, failing


class Good(FixedProfile):
    """A correct belief, the base of incorrect ones."""

    fixed = False

    def __init__(self, bench: Bench) -> None:
        super().__init__(profile=bench.statistics.profile)


class CountsCalls(Good):
    calls = 0

    def prior(self, time_s: int) -> FloatArray:
        self.calls += 1
        return super().prior(time_s) if self.calls % 2 else np.full(12, 1 / 12)


class ChangesTheLikelihood(Good):
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


class CannotBePickled(Good):
    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.update = lambda: None


class LosesStateWhenPickled(Good):
    seen = 0

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        self.seen += 1
        share = 1 / self.seen
        return share * super().observe(time_s, likelihood) + (1 - share) / 12

    def __getstate__(self) -> dict[str, Any]:
        return {"_profile": self._profile, "fallbacks": 0}


class LearnsButIsFixed(Good):
    fixed = True

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        self._profile = super().observe(time_s, likelihood)
        return self._profile


INCORRECT: list[Incorrect] = [
    (CountsCalls, {"belief_changes_only_by_observe": "two calls of prior(0) differ"}),
    (ChangesTheLikelihood, {"belief_changes_only_by_observe": "observe changed its argument `likelihood`"}),
    (Unnormalised, {"belief_is_a_distribution": "the posterior at 0 s must sum to 1 (within 1e-09), got"}),
    (OneCellShort, {"belief_is_a_distribution": "the prior at 0 s must have shape (12,), got (11,)"}),
    (CannotBePickled, {"belief_can_be_pickled": "raised "}),
    (LosesStateWhenPickled, {"belief_can_be_pickled": "at 1800 s differs"}),
    (LearnsButIsFixed, {"belief_changes_only_by_observe": "`fixed` is True"}),
]


@pytest.mark.parametrize("make", [Good])
def test_correct_base_classes_pass_all_checks(make: Make) -> None:
    assert failing("belief", make) == {}


@pytest.mark.parametrize(("make", "problems"), INCORRECT)
def test_incorrect_belief_fails_exactly_its_checks(make: Make, problems: dict[str, str]) -> None:
    assert_fails("belief", make, problems)


class FallsBack(Good):
    """A correct belief with fallback priors for reports without mass."""

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


class ObservesOtherwise(Good):
    def observe_compact(self, time_s: int, likelihood: FloatArray, compact: Any) -> FloatArray:
        return np.full(12, 1 / 12)


class Complete(FallsBack):
    """A correct belief with all capabilities."""

    fixed = True
    alarms = 1
    worst_gap = 1e-6

    def solution(self) -> FloatArray | None:
        return np.array([0.5])

    def resume(self, solution: FloatArray) -> None: ...

    def observe_compact(self, time_s: int, likelihood: FloatArray, compact: Any) -> FloatArray:
        return self.observe(time_s, likelihood)


class ResumesOtherwise(Good):
    """Takes solutions but forgets them, and returns another prior."""

    def solution(self) -> FloatArray | None:
        return np.array([1.0])

    def resume(self, solution: FloatArray) -> None:
        self.profile = np.eye(12)[0]

    def prior(self, time_s: int) -> FloatArray:
        return getattr(self, "profile", np.full(12, 1 / 12))


class SolvesInText(Good):
    def solution(self) -> str:
        return "0.5"

    def resume(self, solution: FloatArray) -> None: ...


class LeadsAstray:
    """Links the first reports by none, the others by transitions that do not belong to the belief."""

    def __init__(self, *, after: int = 0) -> None:
        self.after = after

    def __call__(self, time_s: int) -> DenseTransitions | None:
        return DenseTransitions(np.roll(np.eye(12), 1, axis=1)) if time_s >= 300 * self.after else None


def changed(**attributes: Any) -> Make:
    """Return a factory of correct, picklable beliefs with other attributes."""

    def make(bench: Bench) -> Good:
        belief = Good(bench)
        vars(belief).update(attributes)
        return belief

    return make


def invalid(part: str) -> dict[str, str]:
    return {"belief_capabilities_are_valid": part}


INVALID_CAPABILITIES: dict[str, list[Incorrect]] = {
    "fixed": [
        (
            LearnsButIsFixed,
            {"belief_changes_only_by_observe": "`fixed` is True"},
        ),
        (changed(fixed="never"), invalid("`fixed` must be True or False, got 'never'")),
        (changed(fixed=len), invalid("`fixed` must be True or False, got <built-in function len>")),
    ],
    "fallbacks": [(CountsInShares, invalid("`fallbacks` must be an integer, got 0.5"))],
    "alarms": [(CountsDown, invalid("`alarms` must be in [2, inf), got 1"))],
    "worst_gap": [
        (changed(worst_gap="small"), invalid("`worst_gap` must be None or a number in [0, inf), got 'small'")),
        (changed(worst_gap=float("nan")), invalid("in [0, inf), got nan")),
    ],
    "solution": [
        (changed(solution=3), invalid("`solution` must be a method, got 3")),
        (changed(solution=dict), invalid("`solution` requires `resume`")),
        (SolvesInText, invalid("must return a vector of float64 or None, got '0.5'")),
    ],
    "resume": [(ResumesOtherwise, invalid("after resume differs from that after the computation"))],
    "observe_compact": [
        (changed(observe_compact=3), invalid("`observe_compact` must be a method, got 3")),
        (ObservesOtherwise, invalid("observe_compact at 0 s differs from that of observe")),
    ],
    "link": [
        (changed(link=3), invalid("`link` must be a method, got 3")),
        (changed(link=LeadsAstray()), invalid("link must be None before the first report")),
        (changed(link=LeadsAstray(after=1)), invalid("must lead from the last posterior to the prior")),
    ],
    "fallback_priors": [
        (
            changed(fallback_priors=(np.ones(12),)),
            {"belief_uses_its_fallback_priors": "a fallback prior must sum to 1"},
        ),
        (
            FallsBackInAnotherOrder,
            {"belief_uses_its_fallback_priors": "first of `fallback_priors` with mass"},
        ),
    ],
}


def test_belief_with_all_capabilities_passes() -> None:
    assert failing("belief", Complete) == {}


@pytest.mark.parametrize(("make", "problems"), [case for cases in INVALID_CAPABILITIES.values() for case in cases])
def test_invalid_capability_fails_exactly_its_checks(make: Make, problems: dict[str, str]) -> None:
    assert_fails("belief", make, problems)


def test_every_capability_has_an_incorrect_example() -> None:
    assert INVALID_CAPABILITIES.keys() == capabilities(BeliefCapabilities)
