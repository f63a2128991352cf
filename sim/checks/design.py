"""Contract checks of designs and the channels that they make."""

from __future__ import annotations

import numpy as np

from sim.checks import channel as channels
from sim.checks.bench import Bench
from sim.checks.requirements import require, require_flag, value_of
from sim.interfaces import ChannelCapabilities, Design, DesignCapabilities, has_own_outputs


def design_gives_probabilities(design: Design, bench: Bench) -> None:
    """Every row of the channel is a distribution over outputs, which are the cells unless it has a `space`."""
    for prior in bench.priors():
        channel = design(prior)
        if channels.is_countless(channel):
            channels.require_likelihoods(channel, bench.n_cells)
        else:
            channels.require_probabilities(channel, bench.n_cells)


def design_is_one_channel(design: Design, bench: Bench) -> None:
    """`row`, `likelihood` and `likelihoods` are rows and columns of `matrix`."""
    for prior in bench.priors():
        channel = design(prior)
        if not channels.is_countless(channel):
            channels.require_consistent(channel, bench.n_cells)


def design_samples_what_it_says(design: Design, bench: Bench) -> None:
    """`sample` draws outputs with the probabilities of `row`."""
    for prior in bench.priors():
        channel = design(prior)
        if channels.is_countless(channel):
            same = channels.drawn(channel, 5, 20) == channels.drawn(channel, 5, 20)
            require(same, "the same stream gave other outputs")
        else:
            channels.require_samples(channel)


def design_knows_its_outputs(design: Design, bench: Bench) -> None:
    """Outputs that are not cells have a `space` and losses, whatever the prior."""
    declared = value_of(DesignCapabilities.space, design)
    for prior in bench.priors():
        channel = design(prior)
        space = ChannelCapabilities.space.of(channel)
        require(space == declared, f"the design must have the `space` of its channels, got {declared!r} and {space!r}")
        if has_own_outputs(channel):
            channels.require_space(channel, channel.space, bench)


def design_is_pure(design: Design, bench: Bench) -> None:
    """The same prior gives the same channel, and is not changed."""
    first = []
    for prior in bench.priors():
        given = prior.copy()
        first.append(channels.signature(design(given)))
        require(np.array_equal(given, prior), "the prior was changed")
    # In reverse order: each prior now follows another one than before.
    again = [channels.signature(design(prior)) for prior in reversed(list(bench.priors()))]
    same = all(map(np.array_equal, first, reversed(again)))
    require(same, "two calls with the same prior gave different channels")
    alike = all(np.array_equal(signature, first[0]) for signature in first)
    uses_prior = DesignCapabilities.uses_prior.of(design)
    require(alike or uses_prior, "it says uses_prior = False, but the prior matters")


def design_describes_itself(design: Design, bench: Bench) -> None:
    """The optional `uses_prior`, and `countless` and the epsilon of its channels, are valid."""
    require_flag(DesignCapabilities.uses_prior, design)
    for prior in bench.priors():
        channels.require_description(design(prior), bench)
