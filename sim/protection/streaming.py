"""Answer the lines of a stream one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from sim.errors import InputError, InvalidValue
from sim.protection.lines import Reader, answer_line, header, invalid_line
from sim.protection.protector import Protector


def protect_lines(
    protector: Protector,
    lines: Iterable[bytes],
    write: Callable[[str], object],
    warn: Callable[[str], object],
) -> Counter[str]:
    """Write one answer per line, each after its state is on the disk; return the number of answers by status.

    `write` receives a line without its end, and must not return before the line has left the process. A line without a
    valid query is answered by the status ``invalid``; `warn` receives the reason.
    """
    reader, counts = Reader(), Counter[str]()
    changed: set[str] = set()
    for number, raw in enumerate(lines, start=1):
        if not raw.strip():
            continue
        try:
            line = reader.read(raw)
            if line is None:
                write(header(reader.form) or "")
                continue
            answer = protector.report(line.time_s, line.lat, line.lon, user=line.user, seq=line.seq)
        except InvalidValue as error:
            if reader.form is None or error.code == "no-such-column":
                raise InputError(f"line {number}: {error}", code=error.code) from error
            warn(f"line {number}: {error} [{error.code}]")
            write(invalid_line(reader.form))
            counts["invalid"] += 1
            continue
        write(answer_line(answer, line.echo, reader.form or "json"))
        counts["repeated" if answer.repeated else answer.status] += 1
        for user, first in protector.changed_at().items():
            if user not in changed:
                changed.add(user)
                warn(
                    f"user {user!r}: the restored belief differs in rounding from report {first} on, because another "
                    "version or machine wrote the state; all stored answers remain valid"
                )
    return counts
