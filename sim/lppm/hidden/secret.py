"""Mechanisms whose output is a function of the true cell and a secret, such as an offset followed by snapping."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sim.errors import InvalidValue
from sim.events import Report
from sim.inference.bayes import normalise, read_only
from sim.inference.transitions import Transitions
from sim.interfaces import Channel, FloatArray, Generator, IntArray, OutputSpace
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.hidden.clocks import Clock
from sim.lppm.hidden.laws import Law
from sim.lppm.own_outputs import OwnMatrixChannel
from sim.world.locations import Locations

MOST_PAIRS = 20_000_000
"""Largest number of pairs of cell and state: a table of them takes 160 MB."""


def displaced(locations: Locations, displacements_km: FloatArray) -> IntArray:
    """Return the cell of each centre after each displacement, shape (n_cells, n_states); the nearest cell outside.

    >>> from sim.world.grid import Grid
    >>> displaced(Grid.rectangle(rows=1, cols=3, width_km=3.0, height_km=1.0), np.array([[1.0, 0.0]])).tolist()
    [[1], [2], [2]]
    """
    require_pairs(locations.n_cells, len(displacements_km))
    return locations.nearest(
        locations.x_km[:, np.newaxis] + displacements_km[:, 0], locations.y_km[:, np.newaxis] + displacements_km[:, 1]
    )


def require_pairs(n_cells: int, n_states: int) -> None:
    """Raise `InvalidValue` if there are too many pairs of cell and state for exact tracking."""
    if n_cells * n_states > MOST_PAIRS:
        raise InvalidValue(
            f"a secret with {n_states:,} states on {n_cells:,} cells has {n_cells * n_states:,} pairs of cell and "
            f"state: allowed are {MOST_PAIRS:,}; use fewer `levels` or larger cells",
            code="too-many-states",
        )


class _Secret(NamedTuple):
    """The secret of one user after a query."""

    state: int
    clock: Any


class SecretState:
    """A secret with finitely many states, on which outputs depend: z = emission[x, s].

    `emission` has the output of each pair of cell and state, shape (n_cells, n_states). `law` has the states and their
    probabilities, `clock` their change in time. Adversaries track the pair (x, s) exactly.
    """

    approximation = ""
    """Empty: trackers are exact for beliefs that link consecutive cells."""

    def __init__(self, emission: IntArray, *, law: Law, clock: Clock) -> None:
        if emission.ndim != 2 or emission.shape[1] != law.weights.size:
            raise ValueError(f"emission must have shape (n_cells, {law.weights.size}), got {emission.shape}")
        self.emission: IntArray = read_only(np.asarray(emission))
        self.law = law
        self.clock = clock
        self.n_cells, self.n_states = emission.shape
        flat = self.emission.ravel()
        self._order = np.argsort(flat, kind="stable")
        self._sorted = flat[self._order]

    def pairs(self, output: int) -> tuple[IntArray, IntArray]:
        """Return the cells and the states of all pairs with this output."""
        first, last = np.searchsorted(self._sorted, [output, output + 1])
        cells, states = np.divmod(self._order[first:last], self.n_states)
        return cells, states

    def draw(self, secret: Any, channel: Channel, time_s: int, cell: int, rng: Generator) -> tuple[int, _Secret]:  # noqa: ARG002
        """Draw the secret of a query, and return its output with the new secret."""
        if secret is None:
            state, clock = self.law.draw(rng), self.clock.advance(None, time_s)[1]
        else:
            correlation, clock = self.clock.advance(secret.clock, time_s)
            state = secret.state if correlation == 1 else self.law.step(secret.state, correlation, rng)
        return int(self.emission[cell, state]), _Secret(state, clock)

    def tracker(self) -> SecretTracker:
        """Return a new tracker."""
        return SecretTracker(self)

    def matrix(self, n_outputs: int) -> FloatArray:
        """Return f(z | x) of a new secret in every query, shape (n_cells, n_outputs)."""
        codes = np.arange(self.n_cells)[:, np.newaxis] * n_outputs + self.emission
        weights = np.broadcast_to(self.law.weights, self.emission.shape)
        counts = np.bincount(codes.ravel(), weights=weights.ravel(), minlength=self.n_cells * n_outputs)
        return np.asarray(counts.reshape(self.n_cells, n_outputs), dtype=np.float64)


class _Pairs(NamedTuple):
    """Weights of the pairs of cell and state that are possible after a report."""

    cells: IntArray
    states: IntArray
    weights: FloatArray


class SecretTracker:
    """The filter of the pair (cell, secret) of one user, given the reports.

    With transitions M(x' | x) between cells and K_t(s' | s) between secrets, the joint weights are those of
    p(x^r, s^r | z^r) ∝ 1[z^r = emission(x^r, s^r)] sum p(x, s | z^{r-1}) M(x^r | x) K_t(s^r | s). If the cells of
    consecutive queries are independent, only p(s | z^{r-1}) is needed. A report that no pair can explain, under a wrong
    model of the user, makes the secret unknown again.
    """

    def __init__(self, state: SecretState) -> None:
        self._state = state
        self._clock: Any = None
        self._pairs: _Pairs | None = None
        """Possible pairs after the last report; None: the secret is unknown."""
        self._shares: _Pairs | None = None
        """Pairs with the current output, with p(s, z | x, z^{r-1})."""
        self._likelihood: FloatArray | None = None

    def likelihood(self, report: Report, prior: FloatArray, link: Transitions | None) -> FloatArray:  # noqa: ARG002
        """Return p(z^r | x^r, z^{r-1})."""
        correlation, self._clock = self._state.clock.advance(self._clock, report.time_s)
        cells, states = self._state.pairs(report.output)
        weights = self._given_cell(cells, states, link, correlation)
        if not weights.any():
            weights = self._state.law.weights[states]
        self._shares = _Pairs(cells, states, weights)
        likelihood: FloatArray = np.zeros(self._state.n_cells)
        np.add.at(likelihood, cells, weights)
        self._likelihood = likelihood
        return likelihood.copy()

    def condition(self, posterior: FloatArray) -> None:
        """Continue from p(x^r | z^r)."""
        assert self._shares is not None
        assert self._likelihood is not None
        cells, states, weights = self._shares
        with np.errstate(divide="ignore", invalid="ignore"):
            joint = np.where(weights > 0, posterior[cells] * weights / self._likelihood[cells], 0.0)
        kept = joint > 0
        self._pairs = _Pairs(cells[kept], states[kept], normalise(joint[kept])) if kept.any() else None
        self._shares = self._likelihood = None

    def _given_cell(
        self, cells: IntArray, states: IntArray, link: Transitions | None, correlation: float
    ) -> FloatArray:
        """Return p(s | x, z^{r-1}) of some pairs; cells without mass have the p(s | z^{r-1}) of all."""
        law, last = self._state.law, self._pairs
        if last is None:
            return law.weights[states]
        alone: FloatArray = np.zeros(self._state.n_states)
        np.add.at(alone, last.states, last.weights)
        by_state = law.move(alone, correlation)
        if link is None:
            return np.asarray(by_state[states])
        joint = law.move(self._linked(last, link), correlation)
        mass = joint.sum(axis=1)[cells]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(mass > 0, joint[cells, states] / mass, by_state[states])

    def _linked(self, last: _Pairs, link: Transitions) -> FloatArray:
        """Return sum_x p(x, s | z^{r-1}) M(x' | x) for all pairs (x', s), shape (n_cells, n_states)."""
        sources, rows = np.unique(last.cells, return_inverse=True)
        joint = np.zeros((sources.size, self._state.n_states))
        joint[rows, last.states] = last.weights
        onward = link.block(sources, np.arange(self._state.n_cells))
        return np.asarray(onward.T @ joint)


class SecretChannel(MatrixChannel):
    """f(z | x) of a new secret in every query, for outputs that are cells."""

    def __init__(self, state: SecretState) -> None:
        super().__init__(state.matrix(state.n_cells))
        self.hidden_state = state


class OwnSecretChannel(OwnMatrixChannel):
    """f(z | x) of a new secret in every query, for outputs that are not cells; `losses_km` is [cell, output]."""

    def __init__(self, state: SecretState, *, space: OutputSpace, losses_km: FloatArray) -> None:
        super().__init__(state.matrix(losses_km.shape[1]), space=space, losses_km=losses_km)
        self.hidden_state = state


class SecretDesign:
    """A design with one channel and a secret, under any prior."""

    uses_prior = False

    def __init__(self, channel: SecretChannel | OwnSecretChannel) -> None:
        self._channel = channel
        self.hidden_state = channel.hidden_state
        self.space = channel.space if isinstance(channel, OwnSecretChannel) else None

    def __call__(self, prior: FloatArray) -> Channel:  # noqa: ARG002 - the channel does not depend on it
        """Return the channel."""
        return self._channel
