"""The optimal attack on its own: fallbacks, foresight and remembered answers change no answer."""

from __future__ import annotations

import numpy as np
import pytest

from sim.attack.optimal import OptimalAttack
from sim.belief.estimated_profile import EstimatedProfile, EstimatedProfileParameters
from sim.belief.fixed_profile import FixedProfile
from sim.belief.markov_filter import MarkovFilter
from sim.events import Report
from sim.interfaces import Belief, Channel
from sim.lppm.channel import MatrixChannel, RemappedChannel, exponential, identity
from sim.world.distance import Distance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
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
        "learning": EstimatedProfile(EstimatedProfileParameters(), initial_profile=HALF),
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


def uphill() -> Distance:
    """Return a distance that is twice as long to the east and to the north as back."""
    east, north = (km[None, :] - km[:, None] for km in (GRID.x_km, GRID.y_km))
    return Distance(
        kind="file", matrix_km=np.where(east > 0, 2, 1) * abs(east) + np.where(north > 0, 2, 1) * abs(north)
    )


@pytest.mark.parametrize("foresee", [False, True])
@pytest.mark.parametrize("belief", ["fixed", "markov", "learning"])
def test_the_estimate_has_the_least_error_from_the_true_cell_to_it(belief: str, foresee: bool) -> None:
    """d_P(x, y) goes from the true cell to the estimate; the other way round the estimate is another one."""
    distance = uphill()
    profile = np.array([0.2, 0.1, 0.05, 0.15, 0.1, 0.2, 0.05, 0.15])
    channel = exponential(manhattan(GRID), 0.4)

    def believed() -> Belief:
        of_kind: dict[str, Belief] = {
            "fixed": FixedProfile(profile=profile),
            "markov": MarkovFilter(start_profile=profile, transition=np.full((N, N), 0.5 / N) + 0.5 * np.eye(N)),
            "learning": EstimatedProfile(EstimatedProfileParameters(), initial_profile=profile),
        }
        return of_kind[belief]

    attack = OptimalAttack(belief_of=lambda _: believed(), distance=distance, foresee=foresee)
    alongside, turned = believed(), 0
    for index, output in enumerate(OUTPUTS, start=1):
        prior = alongside.prior(300 * index)
        by_output = {}
        for z in range(N) if foresee else [output]:
            weights = prior * channel.likelihood(z)
            costs = [sum(weights[x] * distance.matrix_km[x, y] for x in range(N)) for y in range(N)]
            wrong = [sum(weights[x] * distance.matrix_km[y, x] for x in range(N)) for y in range(N)]
            by_output[z] = int(np.argmin(costs))
            turned += by_output[z] != int(np.argmin(wrong))
        guess = attack.observe(Report("ann", index, 300 * index, output, channel))
        assert guess.estimate == by_output[output]
        if foresee:
            assert guess.estimate_by_output is not None
            assert dict(enumerate(guess.estimate_by_output.tolist())) == by_output
        alongside.observe(300 * index, channel.likelihood(output))
    assert turned > 0


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
