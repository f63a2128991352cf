"""The mechanism one user carries: a belief about her, and a design that turns it into a channel."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from sim.events import Query, Report
from sim.interfaces import Belief, BeliefCapabilities, Channel, Design, DesignCapabilities, FloatArray

LearnsFrom = Literal["reports", "cells"]


class Mechanism:
    """An LPPM that learns from its own reports alone, or of the full type: from where the user really was.

    The first is output-based, f(z^r | z^{r-1}, x^r): whoever sees the reports knows the channel. The channel of the
    second depends on past real cells, f(z^r | z^{r-1}, x^{r-1}, x^r) (Oya et al. 2019, Sect. III): it is kept from the
    reports, and `remember` takes the place of `observe`.
    """

    def __init__(self, *, belief: Belief, design: Design, learns_from: LearnsFrom = "reports") -> None:
        if learns_from not in get_args(LearnsFrom):
            raise ValueError(f"learns_from must be one of {get_args(LearnsFrom)}, got {learns_from!r}")
        self.belief = belief
        self.design = design
        self.full = learns_from == "cells"
        """Whether it learns from real cells: then its channel is nobody else's business."""
        self._learns = not BeliefCapabilities.fixed.of(belief)
        self._asks = bool(DesignCapabilities.uses_prior.of(design))
        self._channel: Channel | None = None
        self._prior: FloatArray | None = None
        """What the channel was designed for."""

    def channel(self, time_s: int) -> Channel:
        """Return the channel in force at this time.

        It is kept until the belief learns or hands out another prior, or for ever if the design ignores priors.
        """
        channel = self._channel
        if channel is None or self._asks:
            prior = self.belief.prior(time_s)
            if channel is None or prior is not self._prior:
                channel, self._prior = self.design(prior), prior
                self._channel = channel
        return channel

    def observe(self, report: Report) -> None:
        """Let the belief learn from the report's likelihood under the channel that made it."""
        if self._learns and not self.full:
            assert report.channel is not None
            self._learn(report.time_s, report.channel.likelihood(report.output))

    def remember(self, query: Query) -> None:
        """Let the belief of a mechanism of the full type learn where the user was."""
        if self._learns and self.full:
            here = np.zeros(self.belief.prior(query.time_s).size)
            here[query.cell] = 1.0
            self._learn(query.time_s, here)

    def _learn(self, time_s: int, likelihood: FloatArray) -> None:
        self.belief.observe(time_s, likelihood)
        if self._asks:
            self._channel = None
