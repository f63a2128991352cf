"""Limit on dense matrices with a number for each pair of cells."""

from __future__ import annotations

from sim.errors import InvalidValue

DENSE_BYTES = 10**9
"""Largest size of a dense n x n matrix in bytes: about 11,000 cells."""


def dense_bytes(n_cells: int) -> int:
    """Return the size of an n x n matrix of doubles in bytes."""
    return n_cells**2 * 8


def require_dense(n_cells: int, what: str) -> None:
    """Raise `InvalidValue` if an n x n matrix of doubles is too large; `what` describes the matrix."""
    size = dense_bytes(n_cells)
    if size > DENSE_BYTES:
        most = int((DENSE_BYTES / 8) ** 0.5)
        raise InvalidValue(
            f"{what} ({n_cells:,} x {n_cells:,}) would take {size / 1e9:,.1f} GB of memory, allowed are "
            f"{DENSE_BYTES / 1e9:g} GB, that is {most:,} cells. Use fewer locations, such as a coarser grid, or "
            "components that need no such matrix: the designs exponential, location_hiding and coin with Manhattan or "
            "Euclidean quality distances "
            "(the privacy distance may be by road), the beliefs fixed_profile, markov_filter, estimated_profile, "
            "recursive_profile and gravity_filter",
            code="matrix-too-large",
        )
