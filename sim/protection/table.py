"""Channel tables with integer weights, which any language samples exactly.

The weights of a row are integers with the sum 2^48. A uniform integer u in [0, 2^48) selects the first output whose
cumulative weight exceeds u.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sim.errors import InputError
from sim.interfaces import Channel, FloatArray, IntArray
from sim.lppm.channels.product import ProductChannel
from sim.lppm.channels.remapped import RemappedChannel

BITS = 48
TOTAL = 2**BITS
MOST_WEIGHTS = 4_000_000
"""Largest number of weights of a table, about 60 MB of JSON."""


class Row(NamedTuple):
    """The possible outputs of a cell and their cumulative weights."""

    outputs: list[int]
    cumulative: list[int]

    @property
    def n_least(self) -> int:
        """Number of outputs with the least weight, 1."""
        return int(np.count_nonzero(np.diff(self.cumulative, prepend=0) == 1))

    def draw(self, uniform: int) -> int:
        """Return the output that a uniform integer in [0, 2^48) selects."""
        return self.outputs[bisect_right(self.cumulative, uniform)]


class Table:
    """f(z | x) of one channel: rows of single cells, or a product of rows and columns of the grid; then a remap."""

    def __init__(self, factors: Sequence[Sequence[Row]], n_cols: int, remap: IntArray | None) -> None:
        self.factors = factors
        """One list of rows by cell; or two, by row and by column of the grid."""
        self.n_cols = n_cols
        self.remap = remap

    @property
    def draws(self) -> int:
        """Number of uniform integers per output: 1, or 2 for a product."""
        return len(self.factors)

    @property
    def bound(self) -> float:
        """Bound on the difference between the table and the channel in any probability before the remap.

        The largest weight of a row takes what raising others to 1 adds. A further weight covers rounding.
        """
        raised = [max(row.n_least for row in rows) for rows in self.factors]
        return float(sum(1 + max(1, count) for count in raised) / TOTAL)

    def places(self, cell: int) -> list[Row]:
        """Return the row of each factor for a cell."""
        keys = [cell] if self.draws == 1 else list(divmod(cell, self.n_cols))
        return [rows[key] for rows, key in zip(self.factors, keys, strict=True)]

    def sample(self, cell: int, uniforms: Sequence[int]) -> int:
        """Return the output that uniform integers select."""
        drawn = [row.draw(uniform) for row, uniform in zip(self.places(cell), uniforms, strict=True)]
        output = drawn[0] if self.draws == 1 else drawn[0] * self.n_cols + drawn[1]
        return output if self.remap is None else int(self.remap[output])

    def row(self, cell: int, n_outputs: int) -> FloatArray:
        """Return the probabilities of all outputs of a cell, exact up to the rounding of a product."""
        one, *others = (_dense(row) for row in self.places(cell))
        for other in others:
            one = np.multiply.outer(one, _padded(other, self.n_cols)).ravel()
        weights = _padded(one, n_outputs)
        if self.remap is None:
            return weights
        return np.bincount(self.remap, weights=weights, minlength=n_outputs).astype(np.float64, copy=False)

    def describe(self) -> dict[str, Any]:
        """Return the table as JSON."""
        entries = [[{"outputs": row.outputs, "cumulative": row.cumulative} for row in rows] for rows in self.factors]
        kind = {"kind": "rows", "rows": entries[0]}
        if self.draws > 1:
            kind = {"kind": "product", "rows": entries[0], "cols": entries[1]}
        return {**kind, "remap": None if self.remap is None else self.remap.tolist()}


def table_of(channel: Channel, n_cells: int, n_cols: int) -> Table:
    """Return the table of a channel; raise `InputError` if it is too large."""
    base, remap = (channel.base, channel.table) if isinstance(channel, RemappedChannel) else (channel, None)
    if isinstance(base, ProductChannel):
        size = sum(factor.size for factor in base.factors)
        _require_size(size)
        return Table([[quantised(row) for row in factor] for factor in base.factors], n_cols, remap)
    rows: list[Row] = []
    size = 0
    for cell in range(n_cells):
        rows.append(quantised(base.row(cell)))
        size += len(rows[-1].outputs)
        _require_size(size)
    return Table([rows], n_cols, remap)


def quantised(probabilities: FloatArray) -> Row:
    """Return a distribution with integer weights: every possible output has at least 1, and the sum is 2^48.

    Weights are rounded down, or up to 1, and one is added where the fraction is largest until the sum is reached. Each
    weight differs by at most 1 from 2^48 times the probability, except for the largest: it takes what weights rounded
    up to 1 add, and the rounding error of the sum of the probabilities.

    >>> quantised(np.array([0.75, 0.0, 0.25])).outputs, quantised(np.array([0.5, 0.5])).cumulative[0] == 2**47
    ([0, 2], True)
    """
    outputs = np.flatnonzero(probabilities > 0)
    exact = probabilities[outputs] * float(TOTAL)  # a power of two: no rounding
    weights = np.maximum(np.floor(exact).astype(np.int64), 1)
    missing = TOTAL - int(weights.sum())
    order = np.argsort(-(exact - weights), kind="stable")
    weights[order[: max(missing, 0)]] += 1
    weights[np.argmax(weights)] += TOTAL - int(weights.sum())
    return Row(outputs.tolist(), np.cumsum(weights).tolist())


def _dense(row: Row) -> FloatArray:
    dense = np.zeros(row.outputs[-1] + 1)
    dense[row.outputs] = np.diff(row.cumulative, prepend=0) / TOTAL
    return dense


def _padded(values: FloatArray, length: int) -> FloatArray:
    return np.concatenate([values, np.zeros(length - values.size)])


def _require_size(size: int) -> None:
    if size > MOST_WEIGHTS:
        raise InputError(
            f"the table of the mechanism has more than {MOST_WEIGHTS:,} probabilities: use a coarser grid, a mechanism "
            "with few outputs per cell, or the exponential mechanism under the Manhattan distance, whose table is a "
            "product of two small ones",
            code="table-too-large",
        )
