"""Errors that are the user's to mend: shown as one message, without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """Something that the user can mend; the message says what was found, what is allowed and what to do."""

    exit_code = 1
    """What the command line ends with: 1, the work failed; 2, the request was wrong."""


class InputError(UserError):
    """What was given to work with is wrong."""

    exit_code = 2


@contextmanager
def input_errors(what: str) -> Iterator[None]:
    """Turn a ValueError or OSError raised while something is made from the user's input into an InputError."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise InputError(f"{what}: {error}") from error
