"""The optimal attack: fallbacks, estimates for all outputs and cached estimates are consistent."""

from __future__ import annotations

import numpy as np
import pytest

from sim.attack.optimal import OptimalAttack
from sim.belief.estimated_profile import EstimatedProfile, EstimatedProfileParameters
from sim.belief.fixed_profile import FixedProfile
from sim.belief.markov_filter import MarkovFilter
from sim.events import Report
from sim.interfaces import Belief, Channel
from sim.lppm.channels.constant import ConstantChannel
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.hiding import identity
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.channels.mix import MixChannel
from sim.lppm.channels.remapped import RemappedChannel
from sim.world.distance import Distance, MatrixDistance
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
    remapped = RemappedChannel(base, base.remap(HALF, distance))
    return {
        "identity": identity(N),
        "sharp": MatrixChannel(sharp),
        "exponential": base,
        "remapped": remapped,
        "mix": MixChannel(remapped, reveal_probability=0.3),
        "coin": MixChannel(ConstantChannel(n_cells=N, output=1), reveal_probability=0.3),
    }


OUTPUTS = [3, 3, 1, 6, 0, 2, 2, 7, 5, 4, 0, 1]


@pytest.mark.parametrize("distance", [manhattan(GRID), euclidean(GRID)], ids=["manhattan", "euclidean"])
@pytest.mark.parametrize("name", ["identity", "sharp", "exponential", "remapped", "mix", "coin"])
@pytest.mark.parametrize("belief", ["fixed", "markov", "learning"])
def test_all_outputs_changes_neither_estimates_nor_fallbacks(belief: str, name: str, distance: Distance) -> None:
    """Many of these outputs have no mass under the belief: both code paths must use the same fallback priors."""
    plain, listing = (
        OptimalAttack(belief_of=lambda _: beliefs()[belief], distance=distance, all_outputs=all_outputs)
        for all_outputs in (False, True)
    )
    channel = channels(distance)[name]
    possible = set(channel.likelihoods()[0].tolist())
    for index, output in enumerate((z for z in OUTPUTS if z in possible), start=1):
        report = Report("ann", index, 300 * index, output, channel)
        one, other = plain.observe(report), listing.observe(report)
        assert one.estimate == other.estimate
        assert one.estimate_by_output is None
        assert other.estimate_by_output is not None
        assert set(np.flatnonzero(other.estimate_by_output >= 0).tolist()) == possible
    assert plain.fallbacks == listing.fallbacks
    if name in ("identity", "sharp", "mix", "coin"):
        assert listing.fallbacks > 0


def uphill() -> Distance:
    """Return a distance that is twice as long to the east and to the north as back."""
    east, north = (km[None, :] - km[:, None] for km in (GRID.x_km, GRID.y_km))
    return MatrixDistance(
        kind="file", matrix_km=np.where(east > 0, 2, 1) * abs(east) + np.where(north > 0, 2, 1) * abs(north)
    )


@pytest.mark.parametrize("all_outputs", [False, True])
@pytest.mark.parametrize("belief", ["fixed", "markov", "learning"])
def test_estimate_minimises_the_distance_from_the_true_cell(belief: str, all_outputs: bool) -> None:
    """d_P(x, y) is measured from the true cell to the estimate; the reverse yields another estimate."""
    distance = uphill()
    profile = np.array([0.2, 0.1, 0.05, 0.15, 0.1, 0.2, 0.05, 0.15])
    channel = exponential(manhattan(GRID), 0.4)

    def make_belief() -> Belief:
        of_kind: dict[str, Belief] = {
            "fixed": FixedProfile(profile=profile),
            "markov": MarkovFilter(start_profile=profile, transition=np.full((N, N), 0.5 / N) + 0.5 * np.eye(N)),
            "learning": EstimatedProfile(EstimatedProfileParameters(), initial_profile=profile),
        }
        return of_kind[belief]

    attack = OptimalAttack(belief_of=lambda _: make_belief(), distance=distance, all_outputs=all_outputs)
    alongside, different = make_belief(), 0
    for index, output in enumerate(OUTPUTS, start=1):
        prior = alongside.prior(300 * index)
        by_output = {}
        for z in range(N) if all_outputs else [output]:
            weights = prior * channel.likelihood(z)
            costs = [sum(weights[x] * distance.matrix_km[x, y] for x in range(N)) for y in range(N)]
            reversed_costs = [sum(weights[x] * distance.matrix_km[y, x] for x in range(N)) for y in range(N)]
            by_output[z] = int(np.argmin(costs))
            different += by_output[z] != int(np.argmin(reversed_costs))
        guess = attack.observe(Report("ann", index, 300 * index, output, channel))
        assert guess.estimate == by_output[output]
        if all_outputs:
            assert guess.estimate_by_output is not None
            assert dict(enumerate(guess.estimate_by_output.tolist())) == by_output
        alongside.observe(300 * index, channel.likelihood(output))
    assert different > 0


def test_impossible_report_uses_the_fallback_priors_of_the_filter() -> None:
    """The filter restarts at its start profile; `all_outputs` must try that before the likelihood alone."""
    start = np.array([0, 0, 0, 0, 0, 0.9, 0.1, 0])
    stay = MarkovFilter(start_profile=start, transition=np.eye(N))
    attack = OptimalAttack(belief_of=lambda _: stay, distance=manhattan(GRID), all_outputs=True)
    matrix = np.zeros((N, N))
    matrix[:, 0] = 1
    matrix[[5, 6, 7]] = 0
    matrix[5, 1] = matrix[6, 1] = matrix[7, 1] = 1
    certain, vague = identity(N), MatrixChannel(matrix)
    assert attack.observe(Report("ann", 1, 0, 6, certain)).estimate == 6
    # The posterior is now cell 6 for good. The next report is possible only in 5, 2 or 3.
    elsewhere = np.zeros((N, N))
    elsewhere[:, 0] = 1
    elsewhere[[5, 2, 3]] = np.eye(N)[1]
    guess = attack.observe(Report("ann", 2, 1, 1, MatrixChannel(elsewhere)))
    assert guess.estimate == 5  # the start profile has mass there; the likelihood alone would yield 2
    assert attack.fallbacks == 1
    assert attack.observe(Report("ann", 3, 2, 1, vague)).estimate == 5


def test_estimates_are_cached_separately_for_each_user() -> None:
    profiles = {"ann": np.eye(N)[1], "bob": np.eye(N)[6]}
    attack = OptimalAttack(belief_of=lambda user: FixedProfile(profile=profiles[user]), distance=manhattan(GRID))
    channel = exponential(manhattan(GRID), 0.5)
    for index in (1, 2, 3):
        for user, cell in (("ann", 1), ("bob", 6)):
            assert attack.observe(Report(user, index, index, 4, channel)).estimate == cell
