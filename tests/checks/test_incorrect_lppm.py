"""Each incorrect complete mechanism fails its contract check and no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.checks.bench import Bench
from sim.events import Query, Report
from sim.interfaces import Channel, Generator, LPPMCapabilities
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.hidden.clocks import Constant
from sim.lppm.hidden.laws import disc_offsets
from sim.lppm.hidden.secret import SecretChannel, SecretState, displaced
from sim.lppm.outputs import Cells
from tests.checks.contract import Incorrect, Make, assert_fails, capabilities, failing


class Sticky:
    """A correct mechanism: report the last output again with probability one half."""

    def __init__(self, bench: Bench) -> None:
        self.n_cells = bench.n_cells
        self.last: int | None = None

    def channel(self, time_s: int) -> Channel:
        matrix = 0.5 * np.eye(self.n_cells) + 0.5 / self.n_cells
        if self.last is not None:
            matrix = 0.5 * matrix + 0.5 * np.eye(self.n_cells)[self.last]
        return MatrixChannel(matrix)

    def observe(self, report: Report) -> None:
        self.last = report.output


class Full(Sticky):
    """A correct mechanism of the full type."""

    learns_from_cells = True
    full = True

    def remember(self, query: Query) -> None:
        self.last = query.cell


class Secretive:
    """A correct mechanism with a constant offset."""

    def __init__(self, bench: Bench) -> None:
        law = disc_offsets(1.0, levels=2)
        self.hidden_state = SecretState(displaced(bench.world.grid, law.displacements_km), law=law, clock=Constant())
        self._channel, self._secret = SecretChannel(self.hidden_state), None

    def channel(self, time_s: int) -> Channel:
        return self._channel

    def draw(self, query: Query, channel: Channel, rng: Generator) -> int:
        drawn = self.hidden_state.draw(self._secret, channel, query.time_s, query.cell, rng)
        output, self._secret = drawn  # type: ignore[assignment]
        return output

    def observe(self, report: Report) -> None: ...


class CountsCalls(Sticky):
    calls = 0

    def channel(self, time_s: int) -> Channel:
        self.calls += 1
        share = 1 / (2 + self.calls)
        return MatrixChannel(share * np.eye(self.n_cells) + (1 - share) / self.n_cells)


class Lossy(MatrixChannel):
    def matrix(self) -> Any:
        return 0.9 * super().matrix()


class SumsToLess(Sticky):
    def channel(self, time_s: int) -> Channel:
        return Lossy(np.eye(self.n_cells))


class ForgetsWhenCopied(Sticky):
    def channel(self, time_s: int) -> Channel:
        first = 0 if self.last is None else 1
        return MatrixChannel(np.roll(np.eye(self.n_cells), first, axis=1))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"last": None}


class Oversized(Sticky):
    def draw(self, query: Query, channel: Channel, rng: Generator) -> int:
        return self.n_cells


class Unnormalised:
    def prior(self, time_s: int) -> Any:
        return np.ones(12)


class HoldsNoBelief(Sticky):
    belief = Unnormalised()


class RemembersNothing(Full):
    remember = None  # type: ignore[assignment]


class HasANumber(Sticky):
    full = 1


class HasNoMethod(Sticky):
    remember = 3


class HasASpace(Sticky):
    space = Cells(12)


class DeniesItsSecret(Secretive):
    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.state, self.hidden_state = self.hidden_state, None  # type: ignore[assignment]

    def draw(self, query: Query, channel: Channel, rng: Generator) -> int:
        return channel.sample(query.cell, rng)


def invalid(part: str) -> dict[str, str]:
    return {"lppm_capabilities_are_valid": part}


EVERY_CHECK = (
    "lppm_gives_probabilities",
    "lppm_samples_match_rows",
    "lppm_changes_only_by_observe",
    "lppm_can_be_pickled",
    "lppm_capabilities_are_valid",
)

INCORRECT: list[Incorrect] = [
    (CountsCalls, {"lppm_changes_only_by_observe": "returned different channels"}),
    (SumsToLess, {"lppm_gives_probabilities": "must sum to 1"}),
    (ForgetsWhenCopied, {"lppm_can_be_pickled": "differ from"}),
    (Oversized, dict.fromkeys(EVERY_CHECK, "outputs must be in [0, 12), got 12")),
]

INVALID_CAPABILITIES: dict[str, list[Incorrect]] = {
    "belief": [(HoldsNoBelief, invalid("the prior of `belief`"))],
    "learns_from_cells": [(RemembersNothing, invalid("does not define `remember`"))],
    "full": [(HasANumber, invalid("`full` must be True or False, got 1"))],
    "remember": [(HasNoMethod, invalid("`remember` must be a method, got 3"))],
    "draw": [(Oversized, dict.fromkeys(EVERY_CHECK, "outputs must be in [0, 12), got 12"))],
    "space": [(HasASpace, invalid("`space` must be that of the channels"))],
    "hidden_state": [(DeniesItsSecret, invalid("`hidden_state` must be that of the channels"))],
}


@pytest.mark.parametrize("make", [Sticky, Full, Secretive])
def test_correct_mechanisms_pass(make: Make) -> None:
    assert failing("lppm", make) == {}


CASES = [*INCORRECT, *(case for cases in INVALID_CAPABILITIES.values() for case in cases)]


@pytest.mark.parametrize(("make", "problems"), CASES)
def test_incorrect_mechanism_fails_exactly_its_checks(make: Make, problems: dict[str, str]) -> None:
    assert_fails("lppm", make, problems)


def test_every_capability_has_an_incorrect_example() -> None:
    assert INVALID_CAPABILITIES.keys() == capabilities(LPPMCapabilities)
