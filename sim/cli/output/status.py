"""Output of `status`: the progress of a run, and how to resume it."""

from __future__ import annotations

import time

from sim.cli.output.terminal import duration, stdout
from sim.components.wording import counted
from sim.escaping import escape
from sim.storage.status import Status, failed_where

_MOST_LISTED = 5


def print_status(status: Status) -> None:
    """Print the progress of a run, and how to resume an unfinished one."""
    console = stdout()
    planned = "?" if status.planned is None else f"{status.planned:,}"
    state = f"{status.done:,} of {planned} chunks" + (" planned so far" if status.more_may_follow else "")
    lines = [
        ("run", status.run),
        ("state", f"{'finished' if status.finished else 'not finished'}: {state}"),
        ("log", counted(status.rows, "row")),
    ]
    if status.last_part_at_s is not None and status.last_part_age_s is not None:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status.last_part_at_s))
        lines.append(("last part", f"{duration(status.last_part_age_s)} ago ({moment})"))
    if not status.finished:
        if status.chunks_per_s is not None and status.rows_per_s is not None and not status.stalled:
            lines.append(("rate", f"{status.chunks_per_s:,.3g} chunks/s, {status.rows_per_s:,.0f} rows/s recently"))
        if status.left_s and not status.stalled:
            more = ", or more until all metrics are precise enough" if status.more_may_follow else ""
            lines.append(("time left", f"about {duration(status.left_s)}{more}, if the run is in progress"))
        lines.append(("", _next_step(status)))
    for part in status.torn[:_MOST_LISTED]:
        lines.append(("damaged", f"{part}: the next run simulates it again"))
    for failure in status.failed[:_MOST_LISTED]:
        lines.append(("failed", f"{failed_where(failure)}: {failure.get('error', 'unknown error')}"))
        lines += [("", f"to repeat it: {failure['command']}")] if "command" in failure else []
    for name, listed in (("damaged", status.torn), ("failed", status.failed)):
        lines += [(name, f"and {len(listed) - _MOST_LISTED:,} more: see --json")] if len(listed) > _MOST_LISTED else []
    lines += [("note", fault) for fault in status.faults]
    for name, text in lines:
        console.print(f"{name:>10}  {escape(text)}", highlight=False, soft_wrap=True)


def _next_step(status: Status) -> str:
    """Return how to finish an unfinished run."""
    if status.planned is not None and status.done == status.planned and not status.more_may_follow:
        return "All chunks are complete: repeat the command that started the run, without --shard, to finish it."
    subject = "No part was written for longer than usual: the run has probably stopped." if status.stalled else ""
    condition = "Repeat" if status.stalled else "If the run has stopped, repeat"
    resume = f"{condition} the command that started it to resume; after one shard of several, run the others."
    return " ".join(filter(None, (subject, resume)))
