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
        self._last: tuple[FloatArray, Channel] | None = None

    def channel(self, time_s: int) -> Channel:
        """Return the channel in force at this time.

        It is kept until the belief learns or hands out another prior, or for ever if the design ignores priors.
        """
        if self._last is not None and not self._asks:
            return self._last[1]
        prior = self.belief.prior(time_s)
        if self._last is None or self._last[0] is not prior:
            self._last = (prior, self.design(prior))
        return self._last[1]

    def observe(self, report: Report) -> None:
        """Let the belief learn from the report's likelihood under the channel that made it."""
        if self._learns:
            self.belief.observe(report.time_s, report.channel.likelihood(report.output))
            if self._asks:
                self._last = None
