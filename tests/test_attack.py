"""The optimal attack on its own: fallbacks, foresight and remembered answers change no answer."""

from __future__ import annotations

import numpy as np
import pytest

from sim.attack import OptimalAttack
from sim.belief import EstimatedProfile, FixedProfile, MarkovFilter
from sim.events import Report
from sim.interfaces import Belief, Channel
from sim.lppm.channel import MatrixChannel, RemappedChannel, exponential, identity
from sim.world.distance import Distance, euclidean, manhattan
from sim.world.grid import Grid

GRID = Grid.rectangle(rows=2, cols=4, width_km=4.0, height_km=2.0)
N = GRID.n_cells
HALF = np.array([0.5, 0.5, 0, 0, 0, 0, 0, 0])


def beliefs() -> dict[str, Belief]:
    stay = np.eye(N)
    stay[2] = np.roll(HALF, 4)
    return {
        "fixed": FixedProfile(profile=HALF),
        "markov": MarkovFilter(start_profile=np.roll(HALF, 2), transition=stay),
        "learning": EstimatedProfile(initial_profile=HALF),
    }


def channels(distance: Distance) -> dict[str, Channel]:
    base = exponential(distance, 1.0)
    sharp = np.full((N, N), 0.0)
    np.fill_diagonal(sharp, 0.9)
    sharp += np.roll(np.eye(N), 1, axis=1) * 0.1
    return {
        "identity": identity(N),
        "sharp": MatrixChannel(sharp),
        "exponential": base,
        "remapped": RemappedChannel(base, base.remap(HALF, distance)),
    }


OUTPUTS = [3, 3, 1, 6, 0, 2, 2, 7, 5, 4, 0, 1]


@pytest.mark.parametrize("distance", [manhattan(GRID), euclidean(GRID)], ids=["manhattan", "euclidean"])
@pytest.mark.parametrize("name", ["identity", "sharp", "exponential", "remapped"])
@pytest.mark.parametrize("belief", ["fixed", "markov", "learning"])
def test_foresight_changes_no_answer_and_no_count(belief: str, name: str, distance: Distance) -> None:
    """Many of these outputs have no mass under the belief: what takes its place must be the same on both ways."""
    blind, seeing = (
        OptimalAttack(belief_of=lambda _: beliefs()[belief], distance=distance, foresee=foresee)
        for foresee in (False, True)
    )
    channel = channels(distance)[name]
    possible = set(channel.likelihoods()[0].tolist())
    for index, output in enumerate((z for z in OUTPUTS if z in possible), start=1):
        report = Report("ann", index, 300 * index, output, channel)
        one, other = blind.observe(report), seeing.observe(report)
        assert one.estimate == other.estimate
        assert one.estimate_by_output is None
        assert other.estimate_by_output is not None
        assert set(np.flatnonzero(other.estimate_by_output >= 0).tolist()) == possible
    assert blind.fallbacks == seeing.fallbacks
    if name in ("identity", "sharp"):
        assert seeing.fallbacks > 0


def test_an_impossible_report_is_read_as_the_filter_will_read_it() -> None:
    """The filter starts anew at its start profile; foresight must ask that before the likelihood alone."""
    start = np.array([0, 0, 0, 0, 0, 0.9, 0.1, 0])
    stay = MarkovFilter(start_profile=start, transition=np.eye(N))
    attack = OptimalAttack(belief_of=lambda _: stay, distance=manhattan(GRID), foresee=True)
    told = np.zeros((N, N))
    told[:, 0] = 1
    told[[5, 6, 7]] = 0
    told[5, 1] = told[6, 1] = told[7, 1] = 1
    certain, vague = identity(N), MatrixChannel(told)
    assert attack.observe(Report("ann", 1, 0, 6, certain)).estimate == 6
    # Now she is believed to be in 6 for good. The next report comes from 5, 2 or 3: impossible.
    elsewhere = np.zeros((N, N))
    elsewhere[:, 0] = 1
    elsewhere[[5, 2, 3]] = np.eye(N)[1]
    guess = attack.observe(Report("ann", 2, 1, 1, MatrixChannel(elsewhere)))
    assert guess.estimate == 5  # where the start profile has mass; the likelihood alone would say 2
    assert attack.fallbacks == 1
    assert attack.observe(Report("ann", 3, 2, 1, vague)).estimate == 5


def test_answers_are_remembered_for_each_user_apart() -> None:
    profiles = {"ann": np.eye(N)[1], "bob": np.eye(N)[6]}
    attack = OptimalAttack(belief_of=lambda user: FixedProfile(profile=profiles[user]), distance=manhattan(GRID))
    channel = exponential(manhattan(GRID), 0.5)
    for index in (1, 2, 3):
        for user, cell in (("ann", 1), ("bob", 6)):
            assert attack.observe(Report(user, index, index, 4, channel)).estimate == cell
