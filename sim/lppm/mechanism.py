"""The mechanism of one user: a belief about the user, and a design that turns it into a channel."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, get_args

import numpy as np

from sim.events import Query, Release, Report
from sim.interfaces import (
    Belief,
    BeliefCapabilities,
    Channel,
    Design,
    DesignCapabilities,
    FloatArray,
    Generator,
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
        self.hidden_state = DesignCapabilities.hidden_state.of(design)
        """Secret state on which the outputs depend, or None."""
        self.secret: Any = None
        """Secret of a mechanism with hidden state after the last draw; None before the first one."""
        self._channel_at = DesignCapabilities.channel_at.of(design)
        self._releases = None if self._channel_at is None else releases_of(design)
        self._moment: tuple[int, int] | None = None
        """Time and number of releases that the channel was designed for, if it depends on them."""
        self._n_released = 0
        self._learns = not BeliefCapabilities.fixed.of(belief)
        self._uses_prior = self._channel_at is not None or bool(DesignCapabilities.uses_prior.of(design))
        self._channel: Channel | None = None
        self._prior: FloatArray | None = None
        """Prior that the channel was designed for."""

    def channel(self, time_s: int) -> Channel:
        """Return the channel in force at this time.

        The channel is reused until the belief learns or returns another prior, or always if the design ignores priors.
        One that depends on the time or on past releases is reused for this query only.
        """
        channel = self._channel
        if channel is None or self._uses_prior:
            prior = self.belief.prior(time_s)
            if self._channel_at is not None:
                return self._online(prior, time_s)
            if channel is None or prior is not self._prior:
                channel, self._prior = self.design(prior), prior
                self._channel = channel
        return channel

    @property
    def has_past(self) -> bool:
        """Whether outputs depend on the user's past releases or secrets, so that users cannot share the mechanism."""
        return self._releases is not None or self.hidden_state is not None

    @property
    def draw(self) -> Callable[[Query, Channel, Generator], int] | None:
        """The function that draws an output with the secret of a mechanism with hidden state; None without it."""
        return None if self.hidden_state is None else self._draw

    def observe(self, report: Report) -> None:
        """Update the belief with the likelihood of a report under its channel; add it to the releases.

        A belief learns from the reports of a mechanism with hidden state as if each had a new secret.
        """
        if self._releases is not None:
            self._releases.append(Release(report.time_s, report.output))
            self._n_released += 1
        if self._learns and not self.learns_from_cells:
            assert report.channel is not None
            if self.hidden_state is not None and not report.channel.likelihood(report.output).any():
                return  # an old answer that is impossible as a new one
            observe_output(self.belief, report.time_s, report.channel, report.output)
            self._forget_channel()

    def remember(self, query: Query) -> None:
        """Update the belief with the true cell of a query."""
        if self._learns and self.learns_from_cells:
            likelihood = np.zeros(self.belief.prior(query.time_s).size)
            likelihood[query.cell] = 1.0
            self.belief.observe(query.time_s, likelihood)
            self._forget_channel()

    def _online(self, prior: FloatArray, time_s: int) -> Channel:
        """Return f(z^r | z^{r-1}, x^r), which depends on the time and on past releases."""
        assert self._channel_at is not None
        assert self._releases is not None
        moment = time_s, self._n_released
        if self._channel is None or prior is not self._prior or moment != self._moment:
            self._channel = self._channel_at(prior, time_s, tuple(self._releases))
            self._prior, self._moment = prior, moment
        return self._channel

    def _draw(self, query: Query, channel: Channel, rng: Generator) -> int:
        """Draw an output with the secret, and keep the new secret."""
        assert self.hidden_state is not None
        output, self.secret = self.hidden_state.draw(self.secret, channel, query.time_s, query.cell, rng)
        return output

    def _forget_channel(self) -> None:
        if self._uses_prior:
            self._channel = None


def releases_of(design: Design) -> deque[Release]:
    """Return an empty list of releases, which is bounded by the number that the design uses."""
    used = DesignCapabilities.releases_used.of(design)
    return deque(maxlen=None if math.isinf(used) else int(used))
