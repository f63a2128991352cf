"""Numbers of rows of a matching of two files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Matching:
    """Numbers of rows of a matching."""

    true_rows: int
    sent_rows: int
    pairs: int
    """Rows with both positions."""
    without_report: int
    """True rows without a sent row or sent position: the mechanism may have dropped them."""
    without_truth: int
    """Sent rows without a true row, which are not used."""
    repeated: int
    """Rows that share user and time with an earlier row of the same file; matched in their order."""
