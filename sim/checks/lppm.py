"""Contract checks of complete mechanisms (LPPMs)."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np

from sim.checks import channel as channels
from sim.checks import hidden_state as hidden_states
from sim.checks.bench import Bench
from sim.checks.requirements import require, require_callable, require_distribution, require_flag, value_of
from sim.events import Query, Report
from sim.interfaces import LPPM, Channel, ChannelCapabilities, Generator, LPPMCapabilities, has_own_outputs
from sim.rng import stream

_CELLS = (5, 5, 0, 11, 5, 2)
_PERIOD_S = 7_200


def lppm_gives_probabilities(lppm: LPPM, bench: Bench) -> None:
    """Every row of the channel is a distribution over outputs at every query; rows and columns are consistent."""
    for _, channel in _queries(lppm, stream(5, "noise")):
        if channels.is_countless(channel):
            channels.require_likelihoods(channel, bench.n_cells)
        else:
            channels.require_probabilities(channel, bench.n_cells)
            channels.require_consistent(channel, bench.n_cells)


def lppm_samples_match_rows(lppm: LPPM, bench: Bench) -> None:  # noqa: ARG001 - the checks have the same arguments
    """`sample` draws outputs with the probabilities of `row`, and `draw`, if there is one, possible outputs."""
    draws = LPPMCapabilities.draw.of(lppm) is not None
    for report, channel in _queries(lppm, stream(5, "noise")):
        if not channels.is_countless(channel):
            channels.require_samples(channel)
            valid = draws or channel.row(_CELLS[report.index - 1])[report.output] > 0
            require(valid, f"output {report.output} of query {report.index} is impossible in the true cell")


def lppm_changes_only_by_observe(lppm: LPPM, bench: Bench) -> None:  # noqa: ARG001
    """`channel` is pure: two calls return the same channel, also at another time in between."""
    for report, channel in _queries(lppm, stream(5, "noise")):
        first = channels.signature(channel)
        time_s = report.time_s + _PERIOD_S
        expected = channels.signature(lppm.channel(time_s))
        lppm.channel(time_s + 3_600)
        same = np.array_equal(channels.signature(lppm.channel(time_s)), expected)
        require(same, f"two calls of channel({time_s}) returned different channels")
        same = np.array_equal(channels.signature(channel), first)
        require(same, f"observe changed the channel of query {report.index}, which others have received")


def lppm_can_be_pickled(lppm: LPPM, bench: Bench) -> None:  # noqa: ARG001
    """A pickled copy continues like the original, as checkpoints require."""
    noise = stream(5, "noise")
    for _ in _queries(lppm, noise, stop=3):
        pass
    copied: LPPM = pickle.loads(pickle.dumps(lppm))
    outputs = [[report.output for report, _ in _queries(one, stream(6, "noise"), start=3)] for one in (lppm, copied)]
    require(outputs[0] == outputs[1], f"the outputs of a pickled copy, {outputs[1]}, differ from {outputs[0]}")


def lppm_capabilities_are_valid(lppm: LPPM, bench: Bench) -> None:
    """The optional attributes of the mechanism are valid, and agree with those of its channels."""
    for flag in (LPPMCapabilities.learns_from_cells, LPPMCapabilities.full):
        require_flag(flag, lppm)
    remember = require_callable(LPPMCapabilities.remember, lppm)
    learns = LPPMCapabilities.learns_from_cells.of(lppm)
    require(remember is not None or not learns, "`learns_from_cells` is True, but the class does not define `remember`")
    require_callable(LPPMCapabilities.draw, lppm)
    space, hidden = value_of(LPPMCapabilities.space, lppm), value_of(LPPMCapabilities.hidden_state, lppm)
    for report, channel in _queries(lppm, stream(5, "noise")):
        channels.require_description(channel, bench)
        own = ChannelCapabilities.space.of(channel)
        require(own == space, f"`space` must be that of the channels, {own!r}, got {space!r}")
        if has_own_outputs(channel):
            channels.require_space(channel, channel.space, bench)
        same = ChannelCapabilities.hidden_state.of(channel) is hidden
        require(same, f"`hidden_state` must be that of the channels, got {hidden!r}")
        if hidden is not None:
            hidden_states.require_secret(hidden, channel)
            hidden_states.require_tracker(hidden, channel, bench)
        belief = value_of(LPPMCapabilities.belief, lppm)
        if belief is not None:
            require_distribution(belief.prior(report.time_s), bench.n_cells, "the prior of `belief`")


def _queries(
    lppm: LPPM, rng: Generator, *, start: int = 0, stop: int | None = None
) -> Iterator[tuple[Report, Channel]]:
    """Make some queries like the simulator, and yield each report with the channel in force."""
    draw = LPPMCapabilities.draw.of(lppm)
    remember = LPPMCapabilities.remember.of(lppm) if LPPMCapabilities.learns_from_cells.of(lppm) else None
    for index, cell in enumerate(_CELLS[start:stop], start=start + 1):
        query = Query("ann", index, _PERIOD_S * index, cell)
        channel = lppm.channel(query.time_s)
        output = channel.sample(cell, rng) if draw is None else draw(query, channel, rng)
        require(0 <= output < channel.n_outputs, f"outputs must be in [0, {channel.n_outputs}), got {output!r}")
        report = Report("ann", index, query.time_s, output, None if LPPMCapabilities.full.of(lppm) else channel)
        lppm.observe(report)
        if remember is not None:
            remember(query)
        yield report, channel
