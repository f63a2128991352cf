"""Attacks on mechanisms with hidden state have the posterior of an enumeration of all cells and all secrets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sim.attack.optimal import OptimalAttack
from sim.belief.fixed_profile import FixedProfile
from sim.belief.markov_filter import MarkovFilter
from sim.events import Report
from sim.inference.bayes import normalise
from sim.interfaces import Belief, Channel, FloatArray
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.hidden.clocks import Clock, Constant, Drifting, Periodic
from sim.lppm.hidden.laws import GaussianOffsets, Redrawn, disc_offsets
from sim.lppm.hidden.memo import Memo
from sim.lppm.hidden.secret import SecretChannel, SecretState, displaced
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.lppm.hidden.enumeration import (
    PathWeight,
    chain,
    posterior_of_secrets,
    posterior_of_tables,
    sequences,
    sporadic,
)

LINE = Grid.rectangle(rows=1, cols=3, width_km=3.0, height_km=1.0)
SQUARE = Grid.rectangle(rows=2, cols=2, width_km=2.0, height_km=2.0)
TIMES = (0, 3600, 90_000)
"""The last query is on the second day."""
PERIODS = (True, False, True)


def profile(n_cells: int) -> FloatArray:
    return normalise(np.arange(1.0, n_cells + 1))


def transition(n_cells: int) -> FloatArray:
    moves = np.random.default_rng(n_cells).dirichlet(np.ones(n_cells), size=n_cells)
    moves[0] = np.roll(np.eye(n_cells)[0], 1)  # some moves are impossible
    return np.asarray(moves)


def model(name: str, n_cells: int) -> tuple[Belief, PathWeight]:
    start, moves = profile(n_cells), transition(n_cells)
    match name:
        case "sporadic":
            return FixedProfile(profile=start), sporadic(start)
        case "markov":
            return MarkovFilter(start_profile=start, transition=moves), chain(start, moves)
    return MarkovFilter(start_profile=start, transition=moves, restart_s=86_400), chain(start, moves, PERIODS)


def posterior(belief: Belief, channels: Sequence[Channel], outputs: Sequence[int], grid: Grid) -> FloatArray:
    attack = OptimalAttack(belief_of=lambda _: belief, distance=manhattan(grid), with_posterior=True)
    reports = zip(TIMES, outputs, channels, strict=False)
    guesses = [
        attack.observe(Report("ann", r, time_s, z, channel)) for r, (time_s, z, channel) in enumerate(reports, 1)
    ]
    assert attack.fallbacks == 0
    assert guesses[-1].posterior is not None
    return guesses[-1].posterior


LAWS: dict[str, GaussianOffsets | Redrawn] = {
    "gaussian": GaussianOffsets(std_km=0.8, levels=2),
    "disc": disc_offsets(1.5, levels=2),
    "refresh": Redrawn([0.2, 0.5, 0.3], np.array([[0.0, 0.0], [1.0, 0.0], [-2.0, 1.0]])),
}
CLOCKS: dict[str, Clock] = {"constant": Constant(), "daily": Periodic(), "drifting": Drifting(20_000.0)}


@pytest.mark.parametrize("belief", ["sporadic", "markov", "restarting"])
@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize(
    ("grid", "law"), [(LINE, "refresh"), (LINE, "gaussian"), (SQUARE, "disc")], ids=["line", "gaussian", "square"]
)
def test_offsets_are_tracked_exactly(grid: Grid, law: str, clock: str, belief: str) -> None:
    state = SecretState(displaced(grid, LAWS[law].displacements_km), law=LAWS[law], clock=CLOCKS[clock])
    channels = [SecretChannel(state)] * len(TIMES)
    seen = 0
    for outputs in list(sequences(grid.n_cells, len(TIMES)))[:: 3 if law != "refresh" else 1]:
        held, weight = model(belief, grid.n_cells)
        expected = posterior_of_secrets(state, TIMES, outputs, weight)
        if expected.sum() > 1e-12:
            seen += 1
            assert posterior(held, channels, outputs, grid) == pytest.approx(normalise(expected), abs=1e-12)
    assert seen > 5


def sharp(n_cells: int) -> FloatArray:
    """A channel with impossible outputs."""
    return 0.7 * np.eye(n_cells) + 0.3 * np.roll(np.eye(n_cells), 1, axis=1)


@pytest.mark.parametrize("belief", ["sporadic", "markov", "restarting"])
@pytest.mark.parametrize("grid", [LINE, SQUARE], ids=["line", "square"])
@pytest.mark.parametrize("kind", ["same", "changing", "sharp"])
def test_memoised_answers_are_tracked_exactly(kind: str, grid: Grid, belief: str) -> None:
    distance, memo = manhattan(grid), Memo(most_tables=10_000)
    inner: list[Channel] = [exponential(distance, 1.0)] * len(TIMES)
    if kind == "changing":
        inner = [exponential(distance, epsilon) for epsilon in (0.5, 1.0, 2.0)]
    if kind == "sharp":
        inner = [MatrixChannel(sharp(grid.n_cells))] * len(TIMES)
    channels = [memo.wrap(channel) for channel in inner]
    matrices = [channel.matrix() for channel in inner]
    for outputs in sequences(grid.n_cells, len(TIMES)):
        held, weight = model(belief, grid.n_cells)
        expected = posterior_of_tables(matrices, outputs, weight)
        if expected.sum() > 1e-12:
            assert posterior(held, channels, outputs, grid) == pytest.approx(normalise(expected), abs=1e-12)
