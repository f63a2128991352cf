"""Numbers of an import: rows read, invalid, outside, ignored and imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MOST_SHOWN = 5


@dataclass(slots=True)
class Counts:
    """Numbers of lines and rows of an import."""

    lines: int = 0
    """Rows of the files, valid or not; lines without headers and blank lines for text."""
    unreadable: int = 0
    """Invalid rows."""
    first_unreadable: list[str] = field(default_factory=list)
    """The first few invalid rows, each with file, line and reason."""
    outside: int = 0
    """Rows outside the region, which are omitted."""
    kept: int = 0
    """Rows written."""
    duplicates: int = 0
    """Rows that repeat another in every column; they are written too."""
    users: int = 0
    unordered: int = field(default=0, compare=False)
    """Rows that are earlier than the row before them of the same user in the source."""
    ignored: dict[str, int] = field(default_factory=dict, compare=False)
    """Valid records that are not positions, by kind."""
    span: tuple[int, int] | None = field(default=None, compare=False)
    """First and last time in Unix seconds; None if the rows have an order only."""
    warnings: list[str] = field(default_factory=list, compare=False)
    """Signs of a wrong interpretation of the data."""

    def add_invalid(self, name: str, faults: list[tuple[int, str]]) -> None:
        """Count invalid rows of a file."""
        self.unreadable += len(faults)
        shown = faults[: MOST_SHOWN - len(self.first_unreadable)]
        self.first_unreadable += [f"{name}:{line}: {reason}" for line, reason in shown]

    def numbers(self) -> dict[str, Any]:
        """Return the numbers for the metadata of a trace file."""
        names = ("lines", "unreadable", "outside", "kept", "duplicates", "users")
        numbers = {name: getattr(self, name) for name in names}
        return numbers | ({"ignored": self.ignored} if self.ignored else {})
