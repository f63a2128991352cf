"""Likelihood rows in the form they come in: a kernel and the set of outputs that a remap sends to the report.

A row is f(z | .) = base + gain K 1_S, where S are the outputs of the base channel that map to z and K the kernel of the
base channel: the exponential kernel, or the identity for location hiding. If the channel may also send the true cell,
the row has another term in the cell z. Sums of many rows with the same kernel need a single application of K, so the
gradient of the likelihood costs O(n) plus the sizes of the sets, for any number of reports. Memory grows with the
number of runs in the sets, not with n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sim.inference.source_sets import SourceSets, contains, gather, joined, scatter
from sim.interfaces import FloatArray, IntArray


class RowKernel(Protocol):
    """A linear map between images over outputs and functions of cells."""

    def apply(self, image: FloatArray) -> FloatArray:
        """Return sum_z K(x, z) image(z) for every cell x, shape (n_cells,)."""
        ...

    def adjoint(self, weights: FloatArray) -> FloatArray:
        """Return sum_x weights(x) K(x, z) for every output z, shape (n_cells,)."""
        ...

    def column(self, sources: SourceSets, n_cells: int) -> FloatArray:
        """Return the sum of K(x, z) over one set of outputs z for every cell x, shape (n_cells,)."""
        ...

    def entries(self, cells: IntArray, sets: SourceSets) -> FloatArray:
        """Return the sum of K(x, z) over each set of outputs z, for some cells x, shape (cells.size, sets.count)."""
        ...


class IdentityKernel:
    """The kernel of location hiding: 1 if output and cell are the same."""

    def apply(self, image: FloatArray) -> FloatArray:
        """Return the image."""
        return image

    def adjoint(self, weights: FloatArray) -> FloatArray:
        """Return the weights."""
        return weights

    def column(self, sources: SourceSets, n_cells: int) -> FloatArray:
        """Return 1 in the cells of the set."""
        return scatter(np.ones(1), sources, n_cells)

    def entries(self, cells: IntArray, sets: SourceSets) -> FloatArray:
        """Return 1 where a cell is in a set."""
        return contains(sets, cells).astype(np.float64)

    def __reduce__(self) -> str:
        return "IDENTITY_KERNEL"  # rows with the same kernel object are one family, also after unpickling


IDENTITY_KERNEL = IdentityKernel()
"""The kernel of all location hiding channels."""


class _GivenRow:
    """A kernel with one column: a row of a channel without known structure."""

    def __init__(self, row: FloatArray) -> None:
        self._row = np.array(row, dtype=np.float64)

    def apply(self, image: FloatArray) -> FloatArray:
        return np.asarray(image[0] * self._row)

    def adjoint(self, weights: FloatArray) -> FloatArray:
        image = np.zeros(self._row.size)
        image[0] = weights @ self._row
        return image

    def column(self, sources: SourceSets, n_cells: int) -> FloatArray:  # noqa: ARG002
        return self._row

    def entries(self, cells: IntArray, sets: SourceSets) -> FloatArray:
        return np.tile(self._row[cells, None], sets.count)


class CompactRow(NamedTuple):
    """One likelihood row, base + gain K 1_S + extra 1_cell."""

    kernel: RowKernel
    sources: SourceSets
    """The set S."""
    gain: float = 1.0
    base: float = 0.0
    cell: int = 0
    """The cell of the additional term."""
    extra: float = 0.0
    """The additional term in that cell."""

    def dense(self, n_cells: int) -> FloatArray:
        """Return the row, shape (n_cells,)."""
        row: FloatArray = self.base + self.gain * self.kernel.column(self.sources, n_cells)
        row[self.cell] += self.extra
        return row


def given_row(row: FloatArray) -> CompactRow:
    """Return a row without known structure; it takes the memory of the row."""
    first = np.zeros(1, dtype=np.int32)
    return CompactRow(_GivenRow(row), SourceSets(np.array([0, 1], dtype=np.int32), first, first + 1))


class CompactRows:
    """A store of compact rows, with the products that solvers need. The oldest rows can be removed.

    Groups of equal columns are found by a 64-bit hash of each column: the sum over rows of a hash of the entry.
    """

    def __init__(self, n_cells: int) -> None:
        self.n_cells = n_cells
        self._rows: list[CompactRow] = []
        self._peaks: list[tuple[int, float]] = []
        self._keys: list[int] = []
        self._added = 0
        self._hash = np.zeros(n_cells, dtype=np.uint64)
        self._groups: IntArray | None = None
        self._all_differ = False
        self._families: list[_Family] | None = None
        self._columns: dict[int, FloatArray] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Return the memory of the sets in bytes."""
        return sum(row.sources.nbytes for row in self._rows)

    def append(self, row: CompactRow, likelihood: FloatArray) -> None:
        """Add a row; `likelihood` is the same row in full."""
        peak = int(likelihood.argmax())
        if not (likelihood.min() >= 0 and 1e-200 <= likelihood[peak] < np.inf):
            raise ValueError(
                "likelihood must be in [0, inf) and above 1e-200 somewhere, got "
                f"{likelihood.min()} to {likelihood[peak]}"
            )
        self._added += 1
        self._rows.append(row)
        self._peaks.append((peak, float(likelihood[peak])))
        self._keys.append(self._added)
        self._hash += _hashed(likelihood, self._added)
        self._families = None
        if not self._all_differ:  # a further row cannot make different columns equal
            self._groups = None

    def forget(self, count: int) -> None:
        """Remove the `count` oldest rows."""
        for row, key in zip(self._rows[:count], self._keys[:count], strict=True):
            self._hash -= _hashed(row.dense(self.n_cells), key)
        del self._rows[:count], self._peaks[:count], self._keys[:count]
        self._columns = {cell: column[count:] for cell, column in self._columns.items()}
        self._groups = self._families = None
        self._all_differ = False

    @property
    def groups(self) -> IntArray:
        """For each cell, the lowest cell with an equal column, shape (n_cells,)."""
        if self._groups is None:
            _, first, inverse = np.unique(self._hash, return_index=True, return_inverse=True)
            self._groups = np.asarray(first[inverse])
            self._all_differ = first.size == self.n_cells
        return self._groups

    def peaks(self, last: int) -> tuple[IntArray, FloatArray]:
        """Return the most likely cell and its likelihood for each of the `last` rows."""
        peaks = self._peaks[len(self._peaks) - last :]
        return np.array([cell for cell, _ in peaks], dtype=np.int64), np.array([most for _, most in peaks])

    def gradient(self, coefficients: FloatArray) -> FloatArray:
        """Return sum_s coefficients(s) L[s, i] for every cell i, shape (n_cells,)."""
        total = np.zeros(self.n_cells)
        for family in self._by_kernel():
            own = coefficients[family.places]
            total += family.kernel.apply(scatter(own * family.gain, family.sets, self.n_cells))
            total += float(own @ family.base)
            np.add.at(total, family.cells, own * family.extra)
        return total

    def fitted(self, profile: FloatArray) -> FloatArray:
        """Return L . profile for every row, shape (len,)."""
        values = np.empty(len(self))
        mass = float(profile.sum())
        for family in self._by_kernel():
            in_sets = gather(family.kernel.adjoint(profile), family.sets)
            values[family.places] = family.base * mass + family.gain * in_sets + family.extra * profile[family.cells]
        return values

    def columns(self, cells: IntArray) -> FloatArray:
        """Return L[s, i] for some cells i, shape (len, cells.size).

        Columns of recent calls are reused: a new report adds one entry to each.
        """
        cached = {cell: self._columns.get(cell, _NO_ENTRIES) for cell in cells.tolist()}
        lengths = np.array([column.size for column in cached.values()])
        matrix = np.empty((len(self), cells.size), order="F")
        for length in np.unique(lengths):
            places = np.flatnonzero(lengths == length)
            for place in places:
                matrix[:length, place] = cached[int(cells[place])]
            if length < len(self):
                matrix[length:, places] = self._entries(cells[places], int(length))
        older = [(cell, column) for cell, column in self._columns.items() if cell not in cached]
        kept = older[max(0, len(older) + len(cached) - _CACHED_COLUMNS) :]
        # Copies, because a view would keep its whole matrix alive.
        copies = {cell: column if column.base is None else column.copy() for cell, column in kept}
        self._columns = copies | {cell: matrix[:, place] for place, cell in enumerate(cached)}
        return matrix

    def _entries(self, cells: IntArray, first: int) -> FloatArray:
        """Return the entries of the rows from `first` on."""
        entries = np.empty((len(self) - first, cells.size))
        for family in self._by_kernel() if first == 0 else _families(self._rows, first):
            own = family.kernel.entries(cells, family.sets).T
            entries[family.places - first] = family.base[:, None] + family.gain[:, None] * own
            row, column = np.nonzero(family.cells[:, None] == cells)
            entries[family.places[row] - first, column] += family.extra[row]
        return entries

    def _by_kernel(self) -> list[_Family]:
        if self._families is None:
            self._families = _families(self._rows, 0)
        return self._families


class _Family(NamedTuple):
    """The rows with one kernel."""

    kernel: RowKernel
    places: IntArray
    sets: SourceSets
    gain: FloatArray
    base: FloatArray
    cells: IntArray
    extra: FloatArray


_NO_ENTRIES = np.empty(0)
_CACHED_COLUMNS = 256
"""Number of columns that are kept: cells enter and leave the support in turns, so that many return."""


def _families(rows: Sequence[CompactRow], first: int) -> list[_Family]:
    """Return the rows from `first` on, grouped by kernel."""
    places: dict[int, list[int]] = {}
    for place in range(first, len(rows)):
        places.setdefault(id(rows[place].kernel), []).append(place)
    return [
        _Family(
            rows[own[0]].kernel,
            np.array(own),
            joined([rows[place].sources for place in own]),
            np.array([rows[place].gain for place in own]),
            np.array([rows[place].base for place in own]),
            np.array([rows[place].cell for place in own]),
            np.array([rows[place].extra for place in own]),
        )
        for own in places.values()
    ]


def _hashed(row: FloatArray, key: int) -> NDArray[np.uint64]:
    """Return a hash of each entry of a row, shape (n_cells,); rows have different keys."""
    bits = (row + 0.0).view(np.uint64)  # + 0.0 makes negative zeros positive: their bits differ
    mixed = (bits ^ np.uint64((0x9E3779B97F4A7C15 * key) % 2**64)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
