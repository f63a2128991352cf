"""Hints for mistyped words of the command line."""

from __future__ import annotations

import difflib
from collections.abc import Collection

import click


def did_you_mean(word: str, allowed: Collection[str]) -> str:
    """Return `` Did you mean 'x'?`` for the nearest allowed word, or nothing.

    >>> did_you_mean("rnu", ["run", "plot"])
    " Did you mean 'run'?"
    """
    near = difflib.get_close_matches(word, allowed, 1)
    return f" Did you mean {near[0]!r}?" if near else ""


def require_known(word: str, allowed: Collection[str], *, what: str, plural: str) -> str:
    """Return the word if it is allowed, else raise a usage error that lists the allowed ones."""
    if word not in allowed:
        raise click.UsageError(f"no {what} {word!r}.{did_you_mean(word, allowed)} {plural}: {', '.join(allowed)}")
    return word
