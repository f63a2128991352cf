"""Helpers for tests of printed tables."""

from __future__ import annotations

import re

HOSTILE_NAMES = ["[bold]SP[/bold]", "[red", "a[/]b", "plain:star:"]
"""Names that rich would interpret as markup."""


def table(text: str) -> list[list[str]]:
    """Return the cells of the printed table, the heading first."""
    lines = [line for line in text.splitlines() if line.startswith(("│", "┃"))]
    return [[cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in lines]
