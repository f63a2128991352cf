"""Each incorrect design fails its contract check and no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sim.checks.bench import Bench
from sim.events import Release, Report
from sim.inference.compact_rows import given_row
from sim.interfaces import (
    Channel,
    ChannelCapabilities,
    DesignCapabilities,
    FloatArray,
    Generator,
    IntArray,
    OutputSpace,
)
from sim.lppm.designs.dropping import Dropping, DroppingParameters
from sim.lppm.designs.planar_laplace import PlanarLaplace, PlanarLaplaceParameters
from sim.lppm.hidden.clocks import Constant
from sim.lppm.hidden.laws import disc_offsets
from sim.lppm.hidden.secret import SecretChannel, SecretState, SecretTracker, displaced
from sim.lppm.outputs import Cells
from tests.checks.contract import Incorrect, Make, assert_fails, capabilities, failing, with_attributes


class PlainChannel:
    """A channel given by its matrix, the base of incorrect ones."""

    def __init__(self, matrix: FloatArray) -> None:
        self._matrix = matrix
        self._limits = matrix.cumsum(axis=1)

    @property
    def n_outputs(self) -> int:
        return int(self._matrix.shape[1])

    def sample(self, cell: int, rng: Generator) -> int:
        return int(self._limits[cell].searchsorted(rng.random() * self._limits[cell, -1], side="right"))

    def likelihood(self, output: int) -> FloatArray:
        return self._matrix[:, output]

    def row(self, cell: int) -> FloatArray:
        return np.asarray(self._matrix[cell])

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        outputs = np.flatnonzero(self._matrix.any(axis=0))
        return outputs, self._matrix[:, outputs].T

    def matrix(self) -> FloatArray:
        return self._matrix


class Uniform:
    """A correct design: any cell, for any prior."""

    def __init__(self, bench: Bench) -> None:
        self.n_cells = bench.world.n_cells

    def __call__(self, prior: FloatArray) -> Channel:
        return PlainChannel(self.matrix(prior))

    def matrix(self, prior: FloatArray) -> FloatArray:
        return np.full((self.n_cells, self.n_cells), 1 / self.n_cells)


class SumsToMore(Uniform):
    def __call__(self, prior: FloatArray) -> Channel:
        return PlainChannel(1.001 * self.matrix(prior))


class FewOutputs(Uniform):
    def __call__(self, prior: FloatArray) -> Channel:
        return PlainChannel(np.full((self.n_cells, 2), 0.5))


class NegativeProbability(Uniform):
    def __call__(self, prior: FloatArray) -> Channel:
        matrix = self.matrix(prior)
        matrix[3, :2] += [0.2, -0.2]
        return PlainChannel(matrix)


class SamplesAnotherCell(Uniform):
    def __call__(self, prior: FloatArray) -> Channel:
        class Shifted(PlainChannel):
            def sample(self, cell: int, rng: Generator) -> int:
                return super().sample((cell + 1) % 12, rng)

        return Shifted(np.eye(self.n_cells))


class SamplesOddly(Uniform):
    def __call__(self, prior: FloatArray) -> Channel:
        class Odd(PlainChannel):
            def sample(self, cell: int, rng: Generator) -> int:
                return 0 if rng.random() < 0.04 else super().sample(cell, rng)

        return Odd(self.matrix(prior))


class WrongColumn(Uniform):
    def __call__(self, prior: FloatArray) -> Channel:
        class Transposed(PlainChannel):
            def likelihood(self, output: int) -> FloatArray:
                return np.asarray(self._matrix[output])

        matrix = self.matrix(prior)
        matrix[0] = np.eye(self.n_cells)[0]
        return Transposed(matrix)


class ChangesThePrior(Uniform):
    def __call__(self, prior: FloatArray) -> Channel:
        prior[:] = 1 / prior.size
        return PlainChannel(self.matrix(prior))


class Remembers(Uniform):
    """The channel depends on the previous prior."""

    last = 0.0

    def matrix(self, prior: FloatArray) -> FloatArray:
        mixed = (
            0.5 * super().matrix(prior) + 0.5 * np.eye(self.n_cells) if self.last < prior[0] else super().matrix(prior)
        )
        self.last = float(prior[0])
        return mixed


class UsesThePriorSilently(Uniform):
    uses_prior = False

    def matrix(self, prior: FloatArray) -> FloatArray:
        return np.tile(prior, (self.n_cells, 1))


class Drops(Uniform):
    """A correct design with other outputs than cells: the true cell or no report."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._drop = Dropping(DroppingParameters(drop_probability=0.5), distance=bench.world.quality_distance)
        self.space: OutputSpace | None = self._drop.space

    def __call__(self, prior: FloatArray) -> Any:
        return self._drop(prior)


class OmitsItsSpace(Drops):
    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.space = None


class SumsToMoreWithASpace(Drops):
    def __call__(self, prior: FloatArray) -> Any:
        channel = super().__call__(prior)
        matrix = 1.001 * channel.matrix()
        changes: dict[str, Any] = {"matrix": lambda: matrix, "row": matrix.__getitem__}
        changes["likelihood"] = matrix.T.__getitem__
        changes["expected_loss_of_km"] = lambda cell: 1.001 * channel.expected_loss_of_km(cell)
        return Changed(channel, likelihoods=lambda: (np.arange(13), matrix.T), **changes)


class Changed:
    """A proxy of an object with some attributes replaced."""

    def __init__(self, original: Any, **changes: Any) -> None:
        self._original, self._changes = original, changes

    def __getattr__(self, name: str) -> Any:
        return self._changes[name] if name in self._changes else getattr(self._original, name)


class WrongExpectedLoss(Drops):
    def __call__(self, prior: FloatArray) -> Any:
        return Changed(super().__call__(prior), expected_loss_of_km=lambda _cell: 9.5)


class NegativeLoss(Drops):
    def __call__(self, prior: FloatArray) -> Any:
        return Changed(super().__call__(prior), loss_of_km=lambda *_: -1.0)


class NamesInvalidCells(Drops):
    """Its space treats every output as a cell, including the one for no report."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.space = Cells(self.n_cells)

    def __call__(self, prior: FloatArray) -> Any:
        return Changed(super().__call__(prior), space=self.space)


class ListsTheCountless(Drops):
    def __call__(self, prior: FloatArray) -> Any:
        return Changed(super().__call__(prior), countless=True)


class DrawsTheImpossible(Drops):
    def __call__(self, prior: FloatArray) -> Any:
        return Changed(super().__call__(prior), countless=True, likelihood=lambda _output: np.eye(12)[0])


INCORRECT: list[Incorrect] = [
    (SumsToMore, {"design_gives_probabilities": "row 0 of the channel must sum to 1 (within 1e-09), got"}),
    (FewOutputs, {"design_gives_probabilities": "n_outputs must be the number of cells, 12, got 2"}),
    (NegativeProbability, {"design_gives_probabilities": "row 3 of the channel must be in [0, 1]"}),
    (SamplesAnotherCell, {"design_samples_match_rows": "sample(5) drew an output with probability 0"}),
    (SamplesOddly, {"design_samples_match_rows": "sample(5) drew output 0 with relative frequency 0.1"}),
    (WrongColumn, {"design_is_consistent": "likelihood(0) differs from column 0 of matrix()"}),
    (ChangesThePrior, {"design_is_pure": "changed its argument `prior`"}),
    (Remembers, {"design_is_pure": "two calls with the same prior"}),
    (UsesThePriorSilently, {"design_is_pure": "`uses_prior` is False"}),
    (SumsToMoreWithASpace, {"design_gives_probabilities": "row 0 of the channel must sum to 1"}),
    (OmitsItsSpace, {"design_outputs_are_valid": "got None"}),
    (WrongExpectedLoss, {"design_outputs_are_valid": "expected_loss_of_km(0) must be"}),
    (NegativeLoss, {"design_outputs_are_valid": "losses must be in [0, inf), got [-1.0"}),
    (NamesInvalidCells, {"design_outputs_are_valid": "cells(12) must be in [0, 12), got (12,)"}),
    (ListsTheCountless, {"design_gives_probabilities": "`countless` is True, but row"}),
    (DrawsTheImpossible, {"design_gives_probabilities": "is 0"}),
]


@pytest.mark.parametrize("make", [Uniform, Drops])
def test_correct_base_classes_pass_all_checks(make: Make) -> None:
    assert failing("design", make) == {}


@pytest.mark.parametrize(("make", "problems"), INCORRECT)
def test_incorrect_design_fails_exactly_its_checks(make: Make, problems: dict[str, str]) -> None:
    assert_fails("design", make, problems)


class Places:
    """A correct design with too many outputs to list."""

    uses_prior = False
    changes: dict[str, Any] = {}

    def __init__(self, bench: Bench) -> None:
        world = bench.world
        self._design = PlanarLaplace(
            PlanarLaplaceParameters(epsilon_per_km=1.0, discretise=False),
            locations=world.locations,
            distance=world.quality_distance,
        )
        self.space = self._design.space

    def __call__(self, prior: FloatArray) -> Any:
        return Changed(self._design(prior), **self.changes)


class CountlessCells(Uniform):
    """Declares too many outputs to list, but has no `space`."""

    def __call__(self, prior: FloatArray) -> Any:
        def raise_error(*_: Any) -> Any:
            raise ValueError("too many outputs")

        return Changed(
            super().__call__(prior), countless=True, row=raise_error, matrix=raise_error, likelihoods=raise_error
        )


class EstimatesTheFirstCell(Uniform):
    """A channel that decides for a cell that is not optimal."""

    def __call__(self, prior: FloatArray) -> Any:
        return Changed(super().__call__(prior), estimates=self.estimates)

    def estimates(self, prior: FloatArray, distance: Any) -> tuple[IntArray, int]:
        return np.zeros(distance.n_cells, dtype=np.int64), 0 * prior.size


class ReturnsAnotherRow(Uniform):
    """A channel whose likelihood in compact form is another one."""

    def __call__(self, prior: FloatArray) -> Any:
        return Changed(super().__call__(prior), compact_likelihood=lambda _output: given_row(np.ones(prior.size)))


class RevealsNothing(Uniform):
    """A channel that claims to reveal cells, although every output is possible in all of them."""

    cells: Any = np.arange(12)

    def __call__(self, prior: FloatArray) -> Any:
        return Changed(super().__call__(prior), only_cells=lambda: self.cells)


class RevealsTooFew(RevealsNothing):
    cells = np.arange(11)


class RevealsUnknownCells(RevealsNothing):
    cells = np.arange(12) + 3


class MiscountsOutputsWithoutMass(EstimatesTheFirstCell):
    def matrix(self, prior: FloatArray) -> FloatArray:
        return np.eye(prior.size)

    def estimates(self, prior: FloatArray, distance: Any) -> tuple[IntArray, int]:
        return np.where(prior > 0, np.arange(distance.n_cells), -1), 0


class ByNight(Uniform):
    """A correct design that sees the time and the last release."""

    releases_used: float = 1

    def __call__(self, prior: FloatArray) -> Channel:
        return self.channel_at(prior, 0, ())

    def channel_at(self, prior: FloatArray, time_s: int, releases: Sequence[Release]) -> Channel:
        share = self.share(time_s, releases)
        return PlainChannel(share * self.matrix(prior) + (1 - share) * np.eye(self.n_cells))

    def share(self, time_s: int, releases: Sequence[Release]) -> float:
        quick = bool(releases) and time_s - releases[-1].time_s < 600
        return 0.9 if time_s % 86_400 < 21_600 else 0.3 if quick else 0.6


class SeesMoreReleases(ByNight):
    def share(self, time_s: int, releases: Sequence[Release]) -> float:
        return 1 / (2 + len(releases))


class CountsCalls(ByNight):
    calls = 0

    def share(self, time_s: int, releases: Sequence[Release]) -> float:
        self.calls += time_s > 0
        return 1 / (2 + self.calls)


class AlwaysDay(ByNight):
    def __call__(self, prior: FloatArray) -> Channel:
        return self.channel_at(prior, 43_200, ())


class RowsSumToLess(ByNight):
    def channel_at(self, prior: FloatArray, time_s: int, releases: Sequence[Release]) -> Channel:
        channel = super().channel_at(prior, time_s, releases)
        return PlainChannel(1.001 * channel.matrix()) if releases else channel


class Unpicklable(ByNight):
    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle this design")


class HasASecret:
    """A correct design: a constant offset, with a possibly incorrect hidden state."""

    state_class: type[SecretState] = SecretState
    declares = True

    def __init__(self, bench: Bench) -> None:
        law = disc_offsets(1.0, levels=2)
        state = self.state_class(displaced(bench.world.grid, law.displacements_km), law=law, clock=Constant())
        self.channel = SecretChannel(state)
        if self.declares:
            self.hidden_state = state

    def __call__(self, prior: FloatArray) -> Channel:
        return self.channel


class Undeclared(HasASecret):
    declares = False


class DrawsAnotherOutput(SecretState):
    def draw(self, secret: Any, channel: Channel, time_s: int, cell: int, rng: Generator) -> tuple[int, Any]:
        return super().draw(secret, channel, time_s, (cell + 1) % self.n_cells, rng)


class ChangesItsSecret(SecretState):
    def draw(self, secret: Any, channel: Channel, time_s: int, cell: int, rng: Generator) -> tuple[int, Any]:
        calls: dict[int, int] = {} if secret is None else secret
        calls[time_s] = cell
        return super().draw(None, channel, time_s, cell, rng)[0], calls


class DrawsByItself(SecretState):
    def draw(self, secret: Any, channel: Channel, time_s: int, cell: int, rng: Generator) -> tuple[int, Any]:
        return super().draw(secret, channel, time_s, cell, np.random.default_rng())


class TracksNothing(SecretTracker):
    def likelihood(self, report: Report, prior: FloatArray, link: Any) -> FloatArray:
        return np.ones(prior.size)


class ForgetsCells(SecretTracker):
    def likelihood(self, report: Report, prior: FloatArray, link: Any) -> FloatArray:
        likelihood = super().likelihood(report, prior, link)
        return likelihood if report.index < 3 else np.zeros(prior.size)


class WithoutTracking(SecretState):
    def tracker(self) -> SecretTracker:
        return TracksNothing(self)


class WithForgetting(SecretState):
    def tracker(self) -> SecretTracker:
        return ForgetsCells(self)


def secret(state_class: type[SecretState]) -> Make:
    return with_attributes(HasASecret, state_class=state_class)


def broken(part: str) -> dict[str, str]:
    return {"design_keeps_its_secret": part}


def unaware(part: str) -> dict[str, str]:
    return {"design_sees_time_and_releases": part}


def channels(**changes: Any) -> Make:
    """Return a factory of countless designs whose channels have other attributes."""
    return with_attributes(Places, changes=changes)


def guaranteeing(epsilon_per_km: Any) -> Make:
    """Return a factory of countless designs whose channels have one epsilon for all distances."""
    return channels(epsilon_in_per_km=None, epsilon_per_km=epsilon_per_km)


def invalid(part: str) -> dict[str, str]:
    return {"design_capabilities_are_valid": part}


INVALID_CAPABILITIES: dict[str, list[Incorrect]] = {
    "uses_prior": [
        (UsesThePriorSilently, {"design_is_pure": "`uses_prior` is False"}),
        (with_attributes(Uniform, uses_prior="yes"), invalid("`uses_prior` must be True or False, got 'yes'")),
    ],
    "space": [
        (
            OmitsItsSpace,
            {"design_outputs_are_valid": "got None"},
        ),
        (
            with_attributes(Uniform, space=Cells(12)),
            {"design_outputs_are_valid": "got Cells"},
        ),
        (NamesInvalidCells, {"design_outputs_are_valid": "cells(12) must be in [0, 12), got (12,)"}),
    ],
    "countless": [
        (ListsTheCountless, {"design_gives_probabilities": "`countless` is True, but row"}),
        (CountlessCells, invalid("no `space`")),
        (channels(countless=1), invalid("`countless` must be True or False, got 1")),
    ],
    "epsilon_per_km": [
        (guaranteeing("1"), invalid("`epsilon_per_km` must be a number in [0, inf], got '1'")),
        (guaranteeing(0.01), invalid("`epsilon_per_km` is 0.01, but the likelihoods of output")),
    ],
    "epsilon_in_per_km": [
        (channels(epsilon_in_per_km=1.0), invalid("`epsilon_in_per_km` must be a method, got 1.0")),
        (
            channels(epsilon_in_per_km=lambda _: -1.0),
            invalid("(distance) must be a number in [0, inf]"),
        ),
        (
            channels(epsilon_in_per_km=lambda _: 0.01),
            invalid("(distance) is 0.01, but the likelihoods"),
        ),
    ],
    "estimates": [
        (channels(estimates=1), invalid("`estimates` must be a method, got 1")),
        (EstimatesTheFirstCell, invalid("estimates(prior, distance) must be")),
        (MiscountsOutputsWithoutMass, invalid("must count 6 outputs without mass, got 0")),
    ],
    "only_cells": [
        (channels(only_cells=1), invalid("`only_cells` must be a method, got 1")),
        (RevealsNothing, invalid("only_cells()[0] is 0, but output 0 is possible in [0, 1, 2")),
        (RevealsTooFew, invalid("only_cells() must have shape (12,), got (11,)")),
        (RevealsUnknownCells, invalid("only_cells() must be in [-1, 12), got [ 3")),
    ],
    "channel_at": [
        (AlwaysDay, unaware("the channel of a first query at time 0")),
        (CountsCalls, unaware("same arguments returned different channels")),
        (RowsSumToLess, {"design_gives_probabilities": "must sum to 1"}),
        (Unpicklable, unaware("cannot pickle this design")),
    ],
    "releases_used": [
        (SeesMoreReleases, unaware("`releases_used` is 1, but the channel depends on earlier")),
        (with_attributes(ByNight, releases_used=0.5), unaware("must be an integer in [0, inf) or infinite, got 0.5")),
    ],
    "hidden_state": [
        (Undeclared, broken("must be that of its channels")),
        (secret(DrawsAnotherOutput), broken("draw with a new secret drew")),
        (secret(ChangesItsSecret), broken("draw changed its argument `secret`")),
        (secret(DrawsByItself), broken("from the same random stream differ")),
        (secret(WithoutTracking), broken("at the first query must be that of the channel")),
        (secret(WithForgetting), broken("is 0 there at query 3")),
    ],
    "compact_likelihood": [
        (channels(compact_likelihood=1), invalid("`compact_likelihood` must be a method, got 1")),
        (ReturnsAnotherRow, invalid("compact_likelihood(0) differs from likelihood(0)")),
    ],
}


@pytest.mark.parametrize("make", [Places, ByNight, HasASecret])
def test_design_with_capabilities_passes(make: Make) -> None:
    assert failing("design", make) == {}


@pytest.mark.parametrize(("make", "problems"), [case for cases in INVALID_CAPABILITIES.values() for case in cases])
def test_invalid_capability_fails_exactly_its_checks(make: Make, problems: dict[str, str]) -> None:
    assert_fails("design", make, problems)


def test_every_capability_has_an_incorrect_example() -> None:
    assert INVALID_CAPABILITIES.keys() == capabilities(DesignCapabilities, ChannelCapabilities)
