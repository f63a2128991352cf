"""Contract checks of designs and their channels."""

from __future__ import annotations

import numpy as np

from sim.checks import channel as channels
from sim.checks.bench import Bench
from sim.checks.requirements import require, require_flag, value_of
from sim.interfaces import ChannelCapabilities, Design, DesignCapabilities, has_own_outputs


def design_gives_probabilities(design: Design, bench: Bench) -> None:
    """Every row of the channel is a distribution over outputs: the cells, or those of its `space`."""
    for prior in bench.priors():
        channel = design(prior)
        if channels.is_countless(channel):
            channels.require_likelihoods(channel, bench.n_cells)
        else:
            channels.require_probabilities(channel, bench.n_cells)


def design_is_consistent(design: Design, bench: Bench) -> None:
    """`row`, `likelihood` and `likelihoods` are rows and columns of `matrix`."""
    for prior in bench.priors():
        channel = design(prior)
        if not channels.is_countless(channel):
            channels.require_consistent(channel, bench.n_cells)


def design_samples_match_rows(design: Design, bench: Bench) -> None:
    """`sample` draws outputs with the probabilities of `row`."""
    for prior in bench.priors():
        channel = design(prior)
        if channels.is_countless(channel):
            same = channels.drawn(channel, 5, 20) == channels.drawn(channel, 5, 20)
            require(same, "two series of samples from the same random stream differ")
        else:
            channels.require_samples(channel)


def design_outputs_are_valid(design: Design, bench: Bench) -> None:
    """Outputs that are not cells have a valid `space` and losses, for any prior."""
    declared = value_of(DesignCapabilities.space, design)
    for prior in bench.priors():
        channel = design(prior)
        space = ChannelCapabilities.space.of(channel)
        require(space == declared, f"the design's `space` must be that of its channels, {space!r}, got {declared!r}")
        if has_own_outputs(channel):
            channels.require_space(channel, channel.space, bench)


def design_is_pure(design: Design, bench: Bench) -> None:
    """The same prior yields the same channel, and is not changed."""
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


def design_capabilities_are_valid(design: Design, bench: Bench) -> None:
    """The optional `uses_prior`, and the optional `countless` and epsilon of the channels, are valid."""
    require_flag(DesignCapabilities.uses_prior, design)
    for prior in bench.priors():
        channels.require_description(design(prior), bench)
