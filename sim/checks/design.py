"""Contract checks of designs and their channels."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator

import numpy as np

from sim.checks import channel as channels
from sim.checks import hidden_state as hidden_states
from sim.checks.bench import Bench
from sim.checks.requirements import require, require_callable, require_flag, value_of
from sim.events import Release
from sim.interfaces import (
    Channel,
    ChannelCapabilities,
    Design,
    DesignCapabilities,
    FloatArray,
    has_own_outputs,
)


def design_gives_probabilities(design: Design, bench: Bench) -> None:
    """Every row of the channel is a distribution over outputs: the cells, or those of its `space`."""
    for channel in _channels(design, bench):
        if channels.is_countless(channel):
            channels.require_likelihoods(channel, bench.n_cells)
        else:
            channels.require_probabilities(channel, bench.n_cells)


def design_is_consistent(design: Design, bench: Bench) -> None:
    """`row`, `likelihood` and `likelihoods` are rows and columns of `matrix`."""
    for channel in _channels(design, bench):
        if not channels.is_countless(channel):
            channels.require_consistent(channel, bench.n_cells)


def design_samples_match_rows(design: Design, bench: Bench) -> None:
    """`sample` draws outputs with the probabilities of `row`."""
    for channel in _channels(design, bench):
        if channels.is_countless(channel):
            same = channels.drawn(channel, 5, 20) == channels.drawn(channel, 5, 20)
            require(same, "two series of samples from the same random stream differ")
        else:
            channels.require_samples(channel)


def design_outputs_are_valid(design: Design, bench: Bench) -> None:
    """Outputs that are not cells have a valid `space` and losses, for any prior."""
    declared = value_of(DesignCapabilities.space, design)
    for channel in _channels(design, bench):
        space = ChannelCapabilities.space.of(channel)
        require(space == declared, f"the design's `space` must be that of its channels, {space!r}, got {declared!r}")
        if has_own_outputs(channel):
            channels.require_space(channel, channel.space, bench)


def design_is_pure(design: Design, bench: Bench) -> None:
    """The same prior, time and past releases yield the same channel; the prior is not changed."""
    first = []
    for prior in bench.priors():
        argument = prior.copy()
        first.append(channels.signature(design(argument)))
        require(np.array_equal(argument, prior), "the design changed its argument `prior`")
    # In reverse order, so that another prior precedes each one.
    again = [channels.signature(design(prior)) for prior in reversed(list(bench.priors()))]
    same = all(map(np.array_equal, first, reversed(again)))
    require(same, "two calls with the same prior returned different channels")
    same = all(np.array_equal(signature, first[0]) for signature in first)
    uses_prior = DesignCapabilities.uses_prior.of(design)
    require(same or uses_prior, "`uses_prior` is False, but the channel depends on the prior")


def design_sees_time_and_releases(design: Design, bench: Bench) -> None:
    """The optional `channel_at` is pure, uses at most `releases_used` releases, and agrees with calling the design."""
    channel_at = require_callable(DesignCapabilities.channel_at, design)
    used = value_of(DesignCapabilities.releases_used, design)
    valid = isinstance(used, int | float) and used >= 0 and (math.isinf(used) or used == int(used))
    require(valid, f"`releases_used` must be an integer in [0, inf) or infinite, got {used!r}")
    if channel_at is None:
        return
    for prior in bench.priors():
        at_first = channels.signature(channel_at(prior, 0, ()))
        same = np.array_equal(channels.signature(design(prior)), at_first)
        require(same, "calling the design must return channel_at(prior, 0, ()), the channel of a first query at time 0")
        moments = list(_moments(design, prior, math.inf))
        before = [channels.signature(channel_at(prior, *moment)) for moment in moments]
        again = [channels.signature(channel_at(prior, *moment)) for moment in reversed(moments)]
        same = all(map(np.array_equal, before, reversed(again)))
        require(same, "two calls of channel_at with the same arguments returned different channels")
        known = [channels.signature(channel_at(prior, *moment)) for moment in _moments(design, prior, used)]
        same = all(map(np.array_equal, before, known))
        require(same, f"`releases_used` is {used}, but the channel depends on earlier releases")
    _require_copy(design, bench)


def design_capabilities_are_valid(design: Design, bench: Bench) -> None:
    """The optional `uses_prior`, and the optional `countless` and epsilon of the channels, are valid."""
    require_flag(DesignCapabilities.uses_prior, design)
    for channel in _channels(design, bench):
        channels.require_description(channel, bench)


def design_keeps_its_secret(design: Design, bench: Bench) -> None:
    """The optional `hidden_state` draws outputs of the channel, is not changed by it, and has valid trackers."""
    declared = value_of(DesignCapabilities.hidden_state, design)
    for channel in _channels(design, bench):
        hidden = value_of(ChannelCapabilities.hidden_state, channel)
        same = hidden is declared
        require(same, f"the design's `hidden_state` must be that of its channels, {hidden!r}, got {declared!r}")
        if hidden is not None:
            hidden_states.require_secret(hidden, channel)
            hidden_states.require_tracker(hidden, channel, bench)
    if declared is not None:
        _require_copy(design, bench)


def _channels(design: Design, bench: Bench) -> Iterator[Channel]:
    """Yield the channels for all priors of the bench, and at some times after some releases if these matter."""
    channel_at = require_callable(DesignCapabilities.channel_at, design)
    used = DesignCapabilities.releases_used.of(design)
    for prior in bench.priors():
        yield design(prior)
        if channel_at is not None:
            for moment in _moments(design, prior, used if isinstance(used, int | float) else math.inf):
                yield channel_at(prior, *moment)


def _moments(design: Design, prior: FloatArray, used: float) -> Iterator[tuple[int, tuple[Release, ...]]]:
    """Yield times of queries, each with the last of the releases before it; outputs are drawn from the channel."""
    outputs = [channels.drawn(design(prior), cell, 1)[0] for cell in (5, 0, 5, 11)]
    releases = tuple(map(Release, _TIMES_S, outputs))
    for number in range(len(releases) + 1):
        past = releases[:number]
        yield _TIMES_S[number], past if math.isinf(used) else past[max(number - int(used), 0) :]


_TIMES_S = (3_600, 28_800, 29_100, 100_000, 100_300)
"""Times of queries: in the night, in the morning, five minutes later, and the next day."""


def _require_copy(design: Design, bench: Bench) -> None:
    """Require that a pickled copy returns the same channel, as checkpoints and worker processes require."""
    prior = next(iter(bench.priors()))
    copied: Design = pickle.loads(pickle.dumps(design))
    same = np.array_equal(channels.signature(copied(prior)), channels.signature(design(prior)))
    require(same, "the channel of a pickled copy differs from that of the original")
