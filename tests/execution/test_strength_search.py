"""The search for a strength: monotone metrics with roots in closed form, whole numbers, jumps and ends of ranges."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.execution.calibration.search import MOST_EVALUATIONS, TOLERANCE, Found, StrengthSearch
from sim.lppm.strength import StrengthRange, epsilon_range

REVEAL = StrengthRange(name="reveal_probability", least=0, most=1, loss_rises=False)
DROP = StrengthRange(name="drop_probability", least=0, most=1, loss_rises=True)
WHOLE = StrengthRange(name="k", least=1, most=1000, loss_rises=True, whole=True)


def saturating(epsilon: float) -> float:
    """The loss of noise with rate epsilon in a region: 4 km at epsilon 0, about 2 / epsilon for large epsilon."""
    return 4 / (1 + 2 * epsilon)


@given(st.floats(1e-3, 3.99))
def test_the_root_of_a_decreasing_loss_is_found(target: float) -> None:
    solution = StrengthSearch(saturating, epsilon_range()).find(target)
    assert solution.outcome == "reached"
    assert abs(saturating(solution.strength) / target - 1) <= TOLERANCE
    assert solution.evaluations <= 16


@given(st.floats(0.05, 0.95), st.floats(0.5, 2))
def test_probabilities_of_both_directions(target: float, power: float) -> None:
    hiding = StrengthSearch(lambda reveal: 1 - reveal**power, REVEAL).find(target)
    dropping = StrengthSearch(lambda drop: drop**power, DROP).find(target)
    assert abs(hiding.strength - (1 - target) ** (1 / power)) < 0.02
    assert hiding.outcome == "reached"
    assert abs(dropping.strength**power / target - 1) <= TOLERANCE


def test_several_targets_share_evaluations() -> None:
    measured = []

    def loss(epsilon: float) -> float:
        measured.append(epsilon)
        return saturating(epsilon)

    search = StrengthSearch(loss, epsilon_range())
    together = [search.find(target) for target in (0.1, 0.2, 0.3, 0.4)]
    assert len(measured) == len(set(measured)) == together[-1].evaluations
    for target, solution in zip((0.1, 0.2, 0.3, 0.4), together, strict=True):
        assert abs(saturating(solution.strength) / target - 1) <= TOLERANCE


@pytest.mark.parametrize(("side", "k"), [("at most", 36), ("at least", 37)])
def test_whole_numbers_stay_on_their_side_of_the_target(side: str, k: int) -> None:
    def loss(k: float) -> float:
        return 0.1 * k

    assert loss(36) < 3.65 < loss(37)
    solution = StrengthSearch(loss, WHOLE, side).find(3.65)  # type: ignore[arg-type]
    assert (solution.strength, solution.outcome, solution.meets) == (k, "nearest", True)


def test_a_jump_is_approached_from_the_allowed_side() -> None:
    def loss(epsilon: float) -> float:
        return 1.0 if epsilon < 3 else 0.2

    solution = StrengthSearch(loss, epsilon_range()).find(0.5)
    assert solution.outcome == "nearest"
    assert solution.meets
    assert 3 <= solution.strength < 3.01
    assert solution.evaluations <= MOST_EVALUATIONS


@pytest.mark.parametrize(
    ("loss", "target", "side", "expected"),
    [
        (saturating, 5.0, "at most", (0.0, "unreachable", True)),  # nothing loses as much: the limit holds
        (saturating, 5.0, "at least", (0.0, "unreachable", False)),
        (lambda epsilon: 1 + saturating(epsilon), 0.5, "at most", (1e4, "unreachable", False)),
        (lambda epsilon: 1 + saturating(epsilon), 0.5, "at least", (1e4, "unreachable", True)),
        (saturating, 4.0, "at most", (0.0, "reached", True)),
    ],
)
def test_targets_beyond_the_ends(
    loss: Callable[[float], float], target: float, side: str, expected: tuple[float, str, bool]
) -> None:
    solution: Found = StrengthSearch(loss, epsilon_range(), side).find(target)  # type: ignore[arg-type]
    assert (solution.strength, solution.outcome, solution.meets) == expected


@given(st.floats(1e-3, 3.5), st.floats(0.9, 1.1), st.floats(0.9, 1.1))
def test_a_scout_leaves_few_evaluations(target: float, factor: float, power: float) -> None:
    """The scout's metric deviates by a factor and a power of the strength, as that of a single replication."""
    measured = []

    def loss(epsilon: float) -> float:
        measured.append(epsilon)
        return saturating(epsilon)

    scout = StrengthSearch(lambda epsilon: factor * saturating(epsilon**power), epsilon_range())
    solution = StrengthSearch(loss, epsilon_range(), scout=scout).find(target)
    assert solution.outcome == "reached"
    assert abs(saturating(solution.strength) / target - 1) <= TOLERANCE
    assert len(measured) <= 8
    assert solution.evaluations >= len(measured)


def test_a_misleading_scout_does_not_change_the_outcome() -> None:
    wrong: list[Callable[[float], float]] = [lambda _: 1.0, lambda _: 0.0, lambda epsilon: 1e3 * saturating(epsilon)]
    for metric in wrong:
        scout = StrengthSearch(metric, epsilon_range())
        solution = StrengthSearch(saturating, epsilon_range(), scout=scout).find(0.5)
        assert solution.outcome == "reached"
        assert abs(saturating(solution.strength) / 0.5 - 1) <= TOLERANCE
