"""The mechanism one user carries: a belief about her, and a design that turns it into a channel."""

from __future__ import annotations

from sim.events import Report
from sim.interfaces import Belief, Channel, Design, FloatArray


class Mechanism:
    """An output-based LPPM f(z^r | z^{r-1}, x^r) that learns from its own reports alone."""

    def __init__(self, *, belief: Belief, design: Design) -> None:
        self.belief = belief
        self.design = design
        self._learns = not getattr(belief, "fixed", False)
        self._asks = bool(getattr(design, "uses_prior", True))
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
        if self._learns:
            self.belief.observe(report.time_s, report.channel.likelihood(report.output))
            if self._asks:
                self._channel = None
