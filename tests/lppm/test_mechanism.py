"""The mechanism designs one channel per prior of its belief and learns from reports only."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from sim.belief.estimated_profile import EstimatedProfile, EstimatedProfileParameters
from sim.events import Query, Release, Report
from sim.interfaces import LPPM, Channel, FloatArray, LearnsFrom
from sim.lppm.channels.hiding import identity
from sim.lppm.designs.exponential import Exponential, ExponentialParameters
from sim.lppm.designs.identity import Identity
from sim.lppm.designs.location_hiding import LocationHiding, LocationHidingParameters
from sim.lppm.mechanism import Mechanism
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid

DISTANCE = manhattan(Grid.rectangle(rows=2, cols=3, width_km=3.0, height_km=2.0))


class Filter:
    """A belief that multiplies its prior by likelihoods and records all calls."""

    def __init__(self, *, fixed: bool = False) -> None:
        self.fixed = fixed
        self.state = np.full(6, 1 / 6)
        self.asked: list[int] = []
        self.seen: list[tuple[int, list[float]]] = []

    def prior(self, time_s: int) -> FloatArray:
        self.asked.append(time_s)
        return self.state

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        self.seen.append((time_s, likelihood.tolist()))
        self.state = self.state * likelihood / (self.state @ likelihood)
        return self.state


class Counting:
    """A design that counts its calls."""

    def __init__(self) -> None:
        self.priors: list[FloatArray] = []

    def __call__(self, prior: FloatArray) -> Channel:
        self.priors.append(prior)
        return identity(6)


def test_mechanism_designs_once_per_prior() -> None:
    belief, design = Filter(), Counting()
    mechanism: LPPM = Mechanism(belief=belief, design=design)
    first = mechanism.channel(5)
    assert mechanism.channel(9) is first
    assert len(design.priors) == 1
    belief.state = belief.state.copy()
    assert mechanism.channel(12) is not first
    assert len(design.priors) == 2
    assert belief.asked == [5, 9, 12]


def test_belief_learns_the_likelihood_under_the_channel_of_the_report() -> None:
    belief = Filter()
    mechanism = Mechanism(
        belief=belief, design=LocationHiding(LocationHidingParameters(reveal_probability=0.4), distance=DISTANCE)
    )
    sent = mechanism.channel(0)
    other = identity(6)
    mechanism.observe(Report("ann", 1, 7, 2, other))
    assert belief.seen == [(7, other.likelihood(2).tolist())]
    assert mechanism.channel(8) is not sent


def test_fixed_belief_is_not_updated() -> None:
    belief = Filter(fixed=True)
    mechanism = Mechanism(
        belief=belief, design=Exponential(ExponentialParameters(epsilon_per_km=1.0), distance=DISTANCE)
    )
    channel = mechanism.channel(0)
    mechanism.observe(Report("ann", 1, 0, 2, channel))
    assert belief.seen == []
    assert mechanism.channel(60) is channel


@pytest.mark.parametrize(
    "design",
    [Identity(n_cells=6), Exponential(ExponentialParameters(epsilon_per_km=1.0, remap=False), distance=DISTANCE)],
)
def test_design_that_ignores_priors_requests_a_single_prior(design: Identity | Exponential) -> None:
    belief = Filter()
    mechanism = Mechanism(belief=belief, design=design)
    for time_s in range(3):
        channel = mechanism.channel(time_s)
        mechanism.observe(Report("ann", time_s + 1, time_s, 2, channel))
    assert belief.asked == [0]
    assert len(belief.seen) == 3


def test_optimal_estimate_is_the_output_along_a_trace() -> None:
    # For an adversary with the same belief, the weighted medians of prior times likelihood equal each output.
    belief, rng = Filter(), np.random.default_rng(3)
    mechanism = Mechanism(
        belief=belief, design=Exponential(ExponentialParameters(epsilon_per_km=0.5), distance=DISTANCE)
    )
    for index in range(1, 40):
        prior = belief.prior(index)
        channel = mechanism.channel(index)
        output = channel.sample(int(rng.integers(6)), rng)
        posterior = prior * channel.likelihood(output)
        costs = posterior @ DISTANCE.matrix_km
        assert costs[output] <= costs.min() + 1e-12 * posterior.sum()
        mechanism.observe(Report("ann", index, index, output, channel))
        belief.state = 0.9 * belief.state + 0.1 / 6


class InPlace(Filter):
    """A belief that returns its internal array and modifies it in place."""

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        self.state[:] = self.state * likelihood / (self.state @ likelihood)
        return self.state


def test_belief_that_learns_in_place_is_queried_again() -> None:
    mechanism = Mechanism(
        belief=InPlace(), design=Exponential(ExponentialParameters(epsilon_per_km=0.4), distance=DISTANCE)
    )
    first = mechanism.channel(0)
    sure = Report("ann", 1, 0, 5, identity(6))
    mechanism.observe(sure)
    second = mechanism.channel(1)
    assert second is not first
    assert second.likelihoods()[0].tolist() == [5]  # the user is known to be in cell 5: every output is remapped to it


def test_full_type_learns_from_true_cells_only() -> None:
    belief, design = Filter(), Counting()
    mechanism = Mechanism(belief=belief, design=design, learns_from="cells")
    assert mechanism.full
    channel = mechanism.channel(5)
    mechanism.observe(Report("ann", 1, 5, 4, None))
    assert belief.seen == []
    assert mechanism.channel(6) is channel
    mechanism.remember(Query("ann", 1, 5, 2))
    assert belief.seen == [(5, [0.0, 0.0, 1.0, 0.0, 0.0, 0.0])]
    assert mechanism.channel(7) is not channel
    assert not Mechanism(belief=belief, design=design).full


def test_disclosed_cells_are_learned_and_the_channel_is_known() -> None:
    belief = Filter()
    mechanism = Mechanism(belief=belief, design=Counting(), learns_from="disclosed_cells")
    assert (mechanism.learns_from_cells, mechanism.full) == (True, False)
    mechanism.observe(Report("ann", 1, 5, 4, mechanism.channel(5)))
    assert belief.seen == []
    mechanism.remember(Query("ann", 1, 5, 2))
    assert belief.seen == [(5, [0.0, 0.0, 1.0, 0.0, 0.0, 0.0])]


def test_full_profile_is_the_histogram_of_past_cells() -> None:
    """With true cells as likelihoods, the maximum likelihood profile is the histogram; the initial weight is r^-1/2."""
    initial = np.full(6, 1 / 6)
    belief = EstimatedProfile(EstimatedProfileParameters(gap=1e-9), initial_profile=initial)
    mechanism = Mechanism(
        belief=belief,
        design=Exponential(ExponentialParameters(epsilon_per_km=1.0), distance=DISTANCE),
        learns_from="cells",
    )
    for index, cell in enumerate([1, 1, 4, 1], start=1):
        mechanism.remember(Query("ann", index, index, cell))
    seen = np.array([0.0, 0.75, 0.0, 0.0, 0.25, 0.0])
    assert belief.prior(9) == pytest.approx(5**-0.5 * initial + (1 - 5**-0.5) * seen, abs=1e-6)


def test_unknown_learns_from_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"^learns_from\b.*'reports', 'cells', 'disclosed_cells'.*'truth'$"):
        Mechanism(belief=Filter(), design=Counting(), learns_from="truth")  # type: ignore[arg-type]


class Recording:
    """A design that sees time and releases, and records what it receives."""

    uses_prior = False

    def __init__(self, releases_used: float) -> None:
        self.releases_used = releases_used
        self.calls: list[tuple[int, tuple[Release, ...]]] = []

    def __call__(self, prior: FloatArray) -> Channel:
        return self.channel_at(prior, 0, ())

    def channel_at(self, prior: FloatArray, time_s: int, releases: Sequence[Release]) -> Channel:
        self.calls.append((time_s, tuple(releases)))
        return identity(6)


@pytest.mark.parametrize("learns_from", ["reports", "cells"])
@pytest.mark.parametrize("used", [0, 2, math.inf])
def test_designs_with_channel_at_receive_time_and_releases(used: float, learns_from: LearnsFrom) -> None:
    design = Recording(used)
    belief = Filter(fixed=learns_from == "reports")
    mechanism = Mechanism(belief=belief, design=design, learns_from=learns_from)
    expected, releases = [], list[Release]()
    for index, (time_s, output) in enumerate([(3, 1), (7, 4), (7, 2), (9, 0)], start=1):
        channel = mechanism.channel(time_s)
        assert mechanism.channel(time_s) is channel
        past = releases if used == math.inf else releases[len(releases) - int(used) :] if used else []
        expected.append((time_s, tuple(past)))
        mechanism.observe(Report("ann", index, time_s, output, None if mechanism.full else channel))
        if mechanism.learns_from_cells:
            mechanism.remember(Query("ann", index, time_s, 5))
        releases.append(Release(time_s, output))
    assert design.calls == expected
    assert mechanism.has_past


def test_ordinary_designs_keep_no_releases() -> None:
    mechanism = Mechanism(belief=Filter(), design=Counting())
    channel = mechanism.channel(3)
    mechanism.observe(Report("ann", 1, 3, 0, channel))
    assert mechanism._releases is None
    assert mechanism.draw is None
    assert not mechanism.has_past
