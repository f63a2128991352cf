"""The mechanism of one user: a belief about the user, and a design that turns it into a channel."""

from __future__ import annotations

from typing import get_args

import numpy as np

from sim.events import Query, Report
from sim.interfaces import (
    Belief,
    BeliefCapabilities,
    Channel,
    Design,
    DesignCapabilities,
    FloatArray,
    LearnsFrom,
    observe_output,
)


class Mechanism:
    """An LPPM that learns from its own reports (output-based) or from true cells (full type).

    The channel of an output-based mechanism is f(z^r | z^{r-1}, x^r): anyone who sees the reports knows it. The
    channel of a full-type mechanism also depends on past true cells, f(z^r | z^{r-1}, x^{r-1}, x^r) (Oya et al. 2019,
    Sect. III). Its reports carry no channel, and `remember` replaces `observe`. With `disclosed_cells` they carry it,
    so that optimal attacks apply: a ceiling for what learning can reach, since the channel discloses past cells.
    """

    def __init__(self, *, belief: Belief, design: Design, learns_from: LearnsFrom = "reports") -> None:
        if learns_from not in get_args(LearnsFrom):
            raise ValueError(f"learns_from must be one of {get_args(LearnsFrom)}, got {learns_from!r}")
        self.belief = belief
        self.design = design
        self.learns_from_cells = learns_from != "reports"
        """Whether the mechanism learns from true cells instead of its reports."""
        self.full = learns_from == "cells"
        """Whether its reports carry no channel, because the channel depends on past true cells."""
        self._learns = not BeliefCapabilities.fixed.of(belief)
        self._uses_prior = bool(DesignCapabilities.uses_prior.of(design))
        self._channel: Channel | None = None
        self._prior: FloatArray | None = None
        """Prior that the channel was designed for."""

    def channel(self, time_s: int) -> Channel:
        """Return the channel in force at this time.

        The channel is reused until the belief learns or returns another prior, or always if the design ignores priors.
        """
        channel = self._channel
        if channel is None or self._uses_prior:
            prior = self.belief.prior(time_s)
            if channel is None or prior is not self._prior:
                channel, self._prior = self.design(prior), prior
                self._channel = channel
        return channel

    def observe(self, report: Report) -> None:
        """Update the belief with the likelihood of a report under its channel."""
        if self._learns and not self.learns_from_cells:
            assert report.channel is not None
            observe_output(self.belief, report.time_s, report.channel, report.output)
            self._forget_channel()

    def remember(self, query: Query) -> None:
        """Update the belief with the true cell of a query."""
        if self._learns and self.learns_from_cells:
            likelihood = np.zeros(self.belief.prior(query.time_s).size)
            likelihood[query.cell] = 1.0
            self.belief.observe(query.time_s, likelihood)
            self._forget_channel()

    def _forget_channel(self) -> None:
        if self._uses_prior:
            self._channel = None
