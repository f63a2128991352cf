"""Errors that the user can correct: shown as one message with a code, without a traceback.

A message says where the problem is, the value found, the values allowed and what to do. Its wording may change. The
code does not: scripts and tests match it, and the page "Messages" of the documentation explains it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """An error that the user can correct."""

    exit_code = 1
    """Exit code of the command line: 1, the work failed; 2, the request was wrong."""
    code = "failed"
    """Stable identifier of the problem: the default of the class, unless the error has a more specific one."""

    def __init__(self, *args: object, code: str | None = None) -> None:
        super().__init__(*args)
        if code is not None:
            self.code = code

    def with_code(self) -> str:
        """Return the message followed by the code.

        >>> InputError("no trace file a.csv", code="file-not-found").with_code()
        'no trace file a.csv [file-not-found]'
        """
        return f"{self} [{self.code}]"


class InputError(UserError):
    """Invalid input."""

    exit_code = 2
    code = "invalid-input"


class InvalidValue(ValueError):
    """A ValueError with a code, for rules that span several parameters or need a file."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return _invalid_value, (str(self), self.code)


def _invalid_value(message: str, code: str) -> InvalidValue:
    return InvalidValue(message, code=code)


def code_of(error: BaseException, default: str) -> str:
    """Return the code of an error, or the default if it has none.

    >>> code_of(InvalidValue("no route", code="unreachable"), "invalid-value"), code_of(ValueError(), "invalid-value")
    ('unreachable', 'invalid-value')
    """
    return error.code if isinstance(error, UserError | InvalidValue) else default


@contextmanager
def input_errors(context: str) -> Iterator[None]:
    """Convert a ValueError or OSError raised while user input is processed into an InputError with the same code."""
    try:
        yield
    except (ValueError, OSError) as error:
        default = "file-error" if isinstance(error, OSError) else InputError.code
        raise InputError(f"{context}: {error}", code=code_of(error, default)) from error
