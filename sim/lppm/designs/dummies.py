"""Dummies: the true cell is sent along with others, and the service answers for all of them."""

from __future__ import annotations

from functools import cached_property
from itertools import combinations
from typing import Annotated, Any, ClassVar, Literal, NoReturn

import numpy as np
from pydantic import Field, model_validator

from sim.components.registry import component
from sim.inference.bayes import read_only
from sim.interfaces import Channel, FloatArray, Generator, IntArray
from sim.lppm.channel import draw
from sim.lppm.outputs import Sets
from sim.lppm.parameters import DesignParameters, ShortNames
from sim.world import World

LISTED = 2**21
"""Sets times cells: beyond this, outputs are too many to list, and there are no expected errors."""
_LEAST_SHARE = 1e-3
"""Every cell is at least this share of an even one as likely to be a dummy, however unlikely the belief finds it."""


@component("design")
class DummiesParameters(DesignParameters):
    """Dummies: sends other cells along with the true one, and keeps the answer for that alone."""

    short_names: ClassVar = ShortNames(design="Dummies", alone={})

    kind: Literal["dummies"] = "dummies"
    dummies: Annotated[int, Field(ge=0, le=1_000_000)] = 3
    """Number of other cells."""
    dummies_from: Literal["belief", "uniform"] = "belief"
    """Distribution they are drawn from: what is believed of the user, so that all are likely places, or uniform."""

    @model_validator(mode="before")
    @classmethod
    def _no_budget(cls, value: Any) -> Any:
        if isinstance(value, dict) and "quality_budget_km" in value:
            raise ValueError(
                "dummies have no `quality_budget_km`: the service answers for every cell of the set, so that nothing "
                "is lost but traffic; say how many `dummies`"
            )
        return value

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return self.dummies_from == "belief"

    @property
    def countless(self) -> bool:
        """Whether there may be too many outputs to list; then there are no expected errors."""
        return self.dummies > 0

    def build(self, world: World) -> Dummies:
        """Return the design for the cells of a world."""
        return Dummies(self, n_cells=world.grid.n_cells)


class Dummies:
    """Send `dummies` other cells along with the true one: Kido, Yanagisawa and Satoh 2005.

    The output is the set S of all of them. Dummies are drawn without the true cell x, all at once, a set being as
    likely as the product of the weights w of its cells (conditional Poisson sampling):

        f(S | x) = prod_{y in S, y != x} w(y) / e_k(w without x)    for x in S,

    with e_k the elementary symmetric polynomial of degree k. The weights are what the belief says (`belief`), so that
    dummies are as likely places as the true one, or all alike (`uniform`). Under a prior pi the posterior is
    pi(x) / (w(x) e_k(w without x)) over x in S, but for its scale. So even ones leave the prior within the set, and
    those of a right belief nearly the even distribution: all that an adversary learns is the set.

    The service answers for every cell and the user keeps her own answer: nothing is lost but traffic.
    """

    def __init__(self, parameters: DummiesParameters, *, n_cells: int) -> None:
        if parameters.dummies >= n_cells:
            raise ValueError(
                f"dummies must be in [0, {n_cells - 1}], the other cells of the grid, got {parameters.dummies}"
            )
        self.space = Sets(n_cells, parameters.dummies + 1)
        self.uses_prior = parameters.uses_prior
        self._members = Members(self.space)
        self._n_cells = n_cells

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        even = np.full(self._n_cells, 1 / self._n_cells)
        weights = np.maximum(prior, _LEAST_SHARE * even) if self.uses_prior else even
        return DummiesChannel(weights, members=self._members)


class DummiesChannel:
    """The channel of `Dummies` for some weights, one for each cell, all of them positive."""

    def __init__(self, weights: FloatArray, *, members: Members) -> None:
        self.space = members.space
        self.n_cells = self.space.n_cells
        if weights.shape != (self.n_cells,) or not weights.min() > 0:
            raise ValueError(
                f"weights must have shape ({self.n_cells},) and be positive, got {weights.shape}, {weights.min()}"
            )
        self.n_outputs = self.space.count
        self.countless = self.n_outputs * self.n_cells > LISTED
        self._members = members
        self._k = self.space.size - 1
        self._log = np.log(weights)

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw a set: how many dummies come before the cell, then which before it and which after it."""
        before, after = self._sums
        counts = np.exp(before[cell] + after[cell + 1][::-1] - self._log_others[cell]).cumsum()
        wanted = draw(counts.tolist(), rng)
        uniform = rng.random(self.n_cells).tolist()
        chosen = [cell]
        left, other = wanted, cell
        while left:
            other -= 1
            if uniform[other] < self._taken(other, left, before[other], before[other + 1]):
                chosen.append(other)
                left -= 1
        left, other = self._k - wanted, cell
        while left:
            other += 1
            if uniform[other] < self._taken(other, left, after[other + 1], after[other]):
                chosen.append(other)
                left -= 1
        return self.space.output(chosen)

    def likelihood(self, output: int) -> FloatArray:
        """Return f(S | .), which is nought outside of the set."""
        cells = np.array(self.space.cells(output))
        found = np.zeros(self.n_cells)
        found[cells] = np.exp(self._log[cells].sum() - self._log_first[cells])
        return found

    def row(self, cell: int) -> FloatArray:
        """Return f(. | x), unless there are too many outputs."""
        self._refuse_to_list()
        return np.asarray(self._listed[:, cell])

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return the outputs that can come and f(S | .) of each, read-only, unless there are too many."""
        self._refuse_to_list()
        possible = np.flatnonzero(self._listed.any(axis=1))
        return (possible, self._listed) if len(possible) == self.n_outputs else (possible, self._listed[possible])

    def matrix(self) -> FloatArray:
        """Return f, read-only, unless there are too many outputs."""
        self._refuse_to_list()
        return self._listed.T

    def loss_of_km(self, cell: int, output: int) -> float:  # noqa: ARG002 - always the same
        """Return 0: the user gets the answer for her own cell."""
        return 0.0

    def expected_loss_of_km(self, cell: int) -> float:  # noqa: ARG002 - always the same
        """Return 0: the user gets the answer for her own cell."""
        return 0.0

    def _taken(self, cell: int, left: int, without: FloatArray, with_it: FloatArray) -> float:
        """Return the probability that a cell is a dummy if so many are left to choose from it and those beyond it."""
        return float(np.exp(self._log[cell] + without[left - 1] - with_it[left]))

    @cached_property
    def _sums(self) -> tuple[FloatArray, FloatArray]:
        """The logarithms of e_0 to e_k of the weights before each cell, and from each cell on."""
        return log_symmetric(self._log, self._k), log_symmetric(self._log[::-1], self._k)[::-1]

    @cached_property
    def _log_others(self) -> FloatArray:
        """The logarithm of e_k of all weights but that of each cell, shape (n_cells,)."""
        before, after = self._sums
        return np.asarray(np.logaddexp.reduce(before[:-1] + after[1:, ::-1], axis=1))

    @cached_property
    def _log_first(self) -> FloatArray:
        """The logarithm of w(x) e_k(w without x), by which the product of all weights of a set is divided."""
        return np.asarray(self._log + self._log_others)

    @cached_property
    def _listed(self) -> FloatArray:
        members = self._members.cells
        entries = np.zeros((self.n_outputs, self.n_cells))
        logs = self._log[members].sum(axis=1, keepdims=True) - self._log_first[members]
        np.put_along_axis(entries, members, np.exp(logs), axis=1)
        return read_only(entries)

    def _refuse_to_list(self) -> None:
        if self.countless:
            _too_many(self.space)


class Members:
    """The cells of all sets of a space, one list for all channels."""

    def __init__(self, space: Sets) -> None:
        self.space = space

    @cached_property
    def cells(self) -> IntArray:
        """The cells of each set by its number, shape (count, size)."""
        space = self.space
        found = np.array(list(combinations(range(space.n_cells), space.size)), dtype=np.int64)
        order = np.lexsort(found.T)  # by the last cell, then the one before it: the order of their numbers
        return read_only(found[order])


def log_symmetric(log_weights: FloatArray, degree: int) -> FloatArray:
    """Return the logarithms of e_0 to e_degree of the first 0, 1, ... n weights, shape (n + 1, degree + 1).

    e_j(w_1..w_i) = e_j(w_1..w_{i-1}) + w_i e_{j-1}(w_1..w_{i-1}): sums of positive numbers, which lose no digits.
    """
    sums = np.full((len(log_weights) + 1, degree + 1), -np.inf)
    sums[:, 0] = 0.0
    for place, log_weight in enumerate(log_weights):
        np.logaddexp(sums[place, 1:], log_weight + sums[place, :-1], out=sums[place + 1, 1:])
    return sums


def _too_many(space: Sets) -> NoReturn:
    raise ValueError(
        f"there are {space.count:,} sets of {space.size} of {space.n_cells} cells, too many to list: "
        "ask for `likelihood` of one of them, or take fewer dummies"
    )
