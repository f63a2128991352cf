"""Suggestions for mistyped words on the command line."""

from __future__ import annotations

import difflib
from collections.abc import Collection

import click


def did_you_mean(word: str, allowed: Collection[str]) -> str:
    """Return `` Did you mean 'x'?`` for the nearest allowed word, or an empty string.

    >>> did_you_mean("rnu", ["run", "plot"])
    " Did you mean 'run'?"
    """
    near = difflib.get_close_matches(word, allowed, 1)
    return f" Did you mean {near[0]!r}?" if near else ""


def require_known(word: str, allowed: Collection[str], *, noun: str, plural: str, code: str) -> str:
    """Return the word if it is allowed; otherwise raise a usage error that lists the allowed words."""
    if word not in allowed:
        message = f"no {noun} {word!r}.{did_you_mean(word, allowed)} {plural}: {', '.join(allowed)}"
        raise click.UsageError(f"{message} [{code}]")
    return word
