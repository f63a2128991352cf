"""Failed chunks: their entry in the manifest, and the error that reports them at the end of a run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from sim.errors import UserError
from sim.execution.inputs import custom_components
from sim.execution.plan import Plan
from sim.execution.pool import Failure
from sim.scenario.models import Scenario
from sim.storage.run_directory import RunDirectory
from sim.storage.status import failed_where

MOST_FAILURES = 5
"""Maximum number of failures, or damaged parts, that a message lists."""


class FailedChunks(UserError):
    """Some chunks failed; all others are in the run directory."""

    code = "chunks-failed"

    def __init__(
        self,
        directory: RunDirectory,
        failures: Sequence[Mapping[str, Any]],
        planned: int,
        *,
        shard: tuple[int, int] | None = None,
        also: str | None = None,
    ) -> None:
        self.failures = failures
        of_shard = "" if shard is None else f" of shard {shard[0]}/{shard[1]}"
        lines = [f"{len(failures)} of {planned} chunks{of_shard} failed; all others are in {directory}"]
        # Shards do not write failures into their common manifest, so the message lists all of them.
        shown = failures if shard is not None else failures[:MOST_FAILURES]
        for failure in shown:
            lines.append(f"  {failed_where(failure)}: {failure['error']}")
            lines.append(f"    repeat it alone, with its traceback: {failure['command']}")
        if len(failures) > len(shown):
            lines.append(f"  and {len(failures) - len(shown)} more")
        if shard is None:
            lines.append(
                "The tracebacks are in `failures` of manifest.json; `lppm-sim summarize` shows the finished chunks."
            )
        if also is not None:
            lines.append(f"The tables are incomplete: {also}")
        super().__init__("\n".join([*lines, "Run the same command again to retry the failed chunks."]))


def describe_failure(failure: Failure, directory: RunDirectory, scenario: Scenario, plan: Plan) -> dict[str, Any]:
    """Return the manifest entry of a failure, with the command that repeats the failed simulation alone."""
    chunk = failure.chunk
    alone = chunk if failure.replication is None else plan.alone(chunk, failure.replication)
    return {
        "chunk": chunk.id,
        "point": chunk.point.index,
        "values": chunk.point.values,
        "replications": [alone.replications.start, alone.replications.stop - 1],
        **({} if chunk.users is None else {"users": [chunk.users.start + 1, chunk.users.stop]}),
        "lppms": list(chunk.lppms) if failure.lppm is None else [failure.lppm],
        "error": failure.error,
        "traceback": failure.details,
        "command": _command(alone.id, directory, scenario),
    }


def _command(chunk_id: str, directory: RunDirectory, scenario: Scenario) -> str:
    """Return the command that simulates one chunk of a run directory."""
    words = ["lppm-sim", "run", directory.describe("manifest.json"), "-o", str(directory), "--chunk", chunk_id]
    words += _code_options(scenario)
    data = scenario.place.data
    return shlex.join(words if data is None else [*words, "--data", str(data)])


def _code_options(scenario: Scenario) -> list[str]:
    """Return the options that permit a command on the manifest to import the custom components of the scenario."""
    names, code = custom_components(scenario), scenario.place.code
    folders = sorted({str(folder) for folder in map(code.folder_of, names) if folder is not None})
    return [f"--allow-code={folder}" for folder in folders] or ["--allow-code"] * bool(names)
