"""Errors about runs on disk: what went wrong, what is damaged, what was asked wrongly, what a run does not have."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from sim.errors import UserError

_FULL = (errno.ENOSPC, errno.EDQUOT)


class RunError(UserError):
    """Something about a run on disk went wrong; the message says what and what to do."""


class DamagedRun(RunError):
    """A file of a run is damaged; the message names the command that repairs it. Always reported, never skipped."""


class RequestError(RunError):
    """The request cannot be met, and nothing was done."""

    exit_code = 2


class NotApplicable(RunError):
    """A result that does not apply to a run, such as a time series finer than its log; the message is the reason.

    A page that shows everything leaves such a result out. Damage is never of this type.
    """


class ChoiceNotApplicable(NotApplicable, RequestError):
    """A result that does not apply to what was chosen: another choice may have it."""


@contextmanager
def named_errors(place: str, verb: str, kind: type[Exception] = OSError) -> Iterator[None]:
    """Turn errors of this kind into a RunError that says what could not be done to which file."""
    try:
        yield
    except UserError:
        raise
    except kind as error:
        number = error.errno if isinstance(error, OSError) else None
        cause = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        hint = " Free some space and run again: finished parts are kept." if number in _FULL else ""
        raise RunError(f"cannot {verb} {place}: {cause.rstrip('.')}.{hint}") from error
