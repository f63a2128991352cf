"""Errors about runs on disk: failures, damage, invalid requests and results that do not apply to a run."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from sim.errors import UserError

_FULL = (errno.ENOSPC, errno.EDQUOT)


class RunError(UserError):
    """An operation on a run directory failed."""

    code = "run-failed"


class DamagedRun(RunError):
    """A file of a run is damaged; the message names the command that repairs it. Always reported, never skipped."""

    code = "damaged-run"


class RequestError(RunError):
    """The request cannot be met; nothing was changed."""

    exit_code = 2
    code = "invalid-request"


class NotApplicable(RunError):
    """A result that does not apply to a run, such as a time series finer than its log; the message is the reason.

    The report omits such a result. Damage is never of this type.
    """

    code = "not-applicable"


class ChoiceNotApplicable(NotApplicable, RequestError):
    """A result that does not apply to the chosen mechanism, attack or shift, but may apply to another."""


@contextmanager
def named_errors(place: str, verb: str, kind: type[Exception] = OSError) -> Iterator[None]:
    """Convert errors of this kind into a RunError that names the file and the failed operation."""
    try:
        yield
    except UserError:
        raise
    except kind as error:
        number = error.errno if isinstance(error, OSError) else None
        cause = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        full = number in _FULL
        hint = " Free disk space and repeat the command: finished parts are preserved." if full else ""
        code = "disk-full" if full else "file-error"
        raise RunError(f"cannot {verb} {place}: {cause.rstrip('.')}.{hint}", code=code) from error
