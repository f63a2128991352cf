"""Dummies: report the true cell together with other cells; the service answers for all of them."""

from __future__ import annotations

from functools import cached_property
from itertools import combinations
from typing import Annotated, Any, ClassVar, Literal, NoReturn

import numpy as np
from pydantic import Field, model_validator

from sim.components.registry import component
from sim.errors import InvalidValue
from sim.inference.bayes import read_only
from sim.interfaces import Channel, FloatArray, Generator, IntArray
from sim.lppm.channels.sampling import draw
from sim.lppm.outputs import Sets
from sim.lppm.parameters import DesignParameters, ShortNames
from sim.world import World

LISTED = 2**21
"""Largest number of sets times cells for which outputs are enumerated and expected errors are computed."""
_LEAST_SHARE = 1e-3
"""Smallest weight of a cell relative to the uniform weight, however unlikely the belief considers it."""


@component("design")
class DummiesParameters(DesignParameters):
    """Dummies: reports the true cell together with other cells and uses only the answer for the true one."""

    short_names: ClassVar = ShortNames(design="Dummies", alone={})

    kind: Literal["dummies"] = "dummies"
    dummies: Annotated[int, Field(ge=0, le=1_000_000)] = 3
    """Number of dummy cells per report; must be smaller than the number of cells of the grid."""
    dummies_from: Literal["belief", "uniform"] = "belief"
    """Distribution of the dummies: the mechanism's belief about the user, so that dummies are plausible, or uniform."""

    @model_validator(mode="before")
    @classmethod
    def _no_budget(cls, value: Any) -> Any:
        if isinstance(value, dict) and "quality_budget_km" in value:
            raise InvalidValue(
                "`quality_budget_km` is not supported by design `dummies`: the service answers for every reported "
                "cell, so the quality loss is 0; set `dummies`, the number of dummy cells, instead",
                code="unsupported-budget",
            )
        return value

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return self.dummies_from == "belief"

    @property
    def countless(self) -> bool:
        """Whether there may be too many outputs to enumerate; then expected errors are not computed."""
        return self.dummies > 0

    def build(self, world: World) -> Dummies:
        """Return the design for the cells of a world."""
        return Dummies(self, n_cells=world.n_cells)


class Dummies:
    """Report the true cell together with `dummies` other cells (Kido, Yanagisawa and Satoh 2005).

    The output is the set S of all of them. Dummies are drawn jointly from the cells other than the true cell x; the
    probability of a set is proportional to the product of the weights w of its cells (conditional Poisson sampling):

        f(S | x) = prod_{y in S, y != x} w(y) / e_k(w without x)    for x in S,

    with e_k the elementary symmetric polynomial of degree k. The weights are the belief's prior (`belief`), so that
    dummies are as plausible as the true cell, or all equal (`uniform`). Under a prior pi the posterior is proportional
    to pi(x) / (w(x) e_k(w without x)) for x in S. With uniform weights the posterior is the prior restricted to S. With
    weights equal to the prior it is nearly uniform over S: the adversary learns only the set.

    The service answers for every cell and the user keeps the answer for the true cell, so the quality loss is 0; the
    cost is traffic.
    """

    def __init__(self, parameters: DummiesParameters, *, n_cells: int) -> None:
        if parameters.dummies >= n_cells:
            raise InvalidValue(
                f"dummies must be in [0, {n_cells - 1}], one less than the number of cells, got {parameters.dummies}",
                code="too-many-dummies",
            )
        self.space = Sets(n_cells, parameters.dummies + 1)
        self.uses_prior = parameters.uses_prior
        self._members = Members(self.space)
        self._n_cells = n_cells

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        uniform = np.full(self._n_cells, 1 / self._n_cells)
        weights = np.maximum(prior, _LEAST_SHARE * uniform) if self.uses_prior else uniform
        return DummiesChannel(weights, members=self._members)


class DummiesChannel:
    """The channel of `Dummies` for given weights, shape (n_cells,), all positive."""

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
        """Draw a set: the number of dummies below the cell's index, then those below and those above it."""
        before, after = self._sums
        counts = np.exp(before[cell] + after[cell + 1][::-1] - self._log_others[cell]).cumsum()
        n_below = draw(counts.tolist(), rng)
        uniform = rng.random(self.n_cells).tolist()
        chosen = [cell]
        left, other = n_below, cell
        while left:
            other -= 1
            if uniform[other] < self._inclusion(other, left, before[other], before[other + 1]):
                chosen.append(other)
                left -= 1
        left, other = self._k - n_below, cell
        while left:
            other += 1
            if uniform[other] < self._inclusion(other, left, after[other + 1], after[other]):
                chosen.append(other)
                left -= 1
        return self.space.output(chosen)

    def likelihood(self, output: int) -> FloatArray:
        """Return f(S | .), which is 0 outside the set."""
        cells = np.array(self.space.cells(output))
        likelihood = np.zeros(self.n_cells)
        likelihood[cells] = np.exp(self._log[cells].sum() - self._log_first[cells])
        return likelihood

    def row(self, cell: int) -> FloatArray:
        """Return f(. | x); raise an error if there are too many outputs."""
        self._require_listed()
        return np.asarray(self._listed[:, cell])

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return the possible outputs and f(S | .) of each, read-only; raise an error if there are too many."""
        self._require_listed()
        possible = np.flatnonzero(self._listed.any(axis=1))
        return (possible, self._listed) if len(possible) == self.n_outputs else (possible, self._listed[possible])

    def matrix(self) -> FloatArray:
        """Return f(z | x) as a read-only matrix [cell, output]; raise an error if there are too many outputs."""
        self._require_listed()
        return self._listed.T

    def loss_of_km(self, cell: int, output: int) -> float:  # noqa: ARG002 - constant
        """Return 0: the user gets the answer for the true cell."""
        return 0.0

    def expected_loss_of_km(self, cell: int) -> float:  # noqa: ARG002 - constant
        """Return 0: the user gets the answer for the true cell."""
        return 0.0

    def _inclusion(self, cell: int, left: int, without: FloatArray, with_it: FloatArray) -> float:
        """Return the probability that a cell is a dummy if `left` dummies remain for it and the cells beyond it."""
        return float(np.exp(self._log[cell] + without[left - 1] - with_it[left]))

    @cached_property
    def _sums(self) -> tuple[FloatArray, FloatArray]:
        """The logarithms of e_0 to e_k of the weights before each cell, and from each cell onwards."""
        return log_symmetric(self._log, self._k), log_symmetric(self._log[::-1], self._k)[::-1]

    @cached_property
    def _log_others(self) -> FloatArray:
        """The logarithm of e_k of all weights except that of each cell, shape (n_cells,)."""
        before, after = self._sums
        return np.asarray(np.logaddexp.reduce(before[:-1] + after[1:, ::-1], axis=1))

    @cached_property
    def _log_first(self) -> FloatArray:
        """The logarithm of w(x) e_k(w without x), which divides the product of the weights of a set."""
        return np.asarray(self._log + self._log_others)

    @cached_property
    def _listed(self) -> FloatArray:
        members = self._members.cells
        entries = np.zeros((self.n_outputs, self.n_cells))
        logs = self._log[members].sum(axis=1, keepdims=True) - self._log_first[members]
        np.put_along_axis(entries, members, np.exp(logs), axis=1)
        return read_only(entries)

    def _require_listed(self) -> None:
        if self.countless:
            _too_many(self.space)


class Members:
    """The cells of all sets of an output space, shared by all channels."""

    def __init__(self, space: Sets) -> None:
        self.space = space

    @cached_property
    def cells(self) -> IntArray:
        """The cells of each set by its number, shape (count, size)."""
        space = self.space
        sets = np.array(list(combinations(range(space.n_cells), space.size)), dtype=np.int64)
        order = np.lexsort(sets.T)  # by the last cell, then the one before it: the order of their numbers
        return read_only(sets[order])


def log_symmetric(log_weights: FloatArray, degree: int) -> FloatArray:
    """Return the logarithms of e_0 to e_degree of the first 0, 1, ..., n weights, shape (n + 1, degree + 1).

    The recursion e_j(w_1..w_i) = e_j(w_1..w_{i-1}) + w_i e_{j-1}(w_1..w_{i-1}) adds positive numbers only, without
    cancellation.
    """
    sums = np.full((len(log_weights) + 1, degree + 1), -np.inf)
    sums[:, 0] = 0.0
    for place, log_weight in enumerate(log_weights):
        np.logaddexp(sums[place, 1:], log_weight + sums[place, :-1], out=sums[place + 1, 1:])
    return sums


def _too_many(space: Sets) -> NoReturn:
    raise InvalidValue(
        f"too many outputs to enumerate: {space.count:,} sets of {space.size} of {space.n_cells} cells; "
        "call `likelihood` of one of them, or use fewer dummies",
        code="too-many-outputs",
    )
