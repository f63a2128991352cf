"""Failed chunks: how they are recorded in the manifest, and the error that reports them at the end of a run."""

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
"""Largest number of failures, or damaged parts, that are listed one by one."""


class FailedChunks(UserError):
    """Some chunks could not be simulated; all others are in the run directory."""

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
        # Shards do not write into the manifest that they share: this message is the only report of their failures.
        shown = failures if shard is not None else failures[:MOST_FAILURES]
        for failure in shown:
            lines.append(f"  {failed_where(failure)}: {failure['error']}")
            lines.append(f"    alone, with its traceback: {failure['command']}")
        if len(failures) > len(shown):
            lines.append(f"  and {len(failures) - len(shown)} more")
        if shard is None:
            lines.append(
                "Their tracebacks are in `failures` of manifest.json; `lppm-sim summarize` shows what is there."
            )
        if also is not None:
            lines.append(f"The tables are incomplete: {also}")
        super().__init__("\n".join([*lines, "A second run tries them again."]))


def describe_failure(failure: Failure, directory: RunDirectory, scenario: Scenario, plan: Plan) -> dict[str, Any]:
    """Return a failure for the manifest, with the command that repeats it alone."""
    chunk = failure.chunk
    alone = chunk if failure.replication is None else plan.alone(chunk, failure.replication)
    return {
        "chunk": chunk.id,
        "point": chunk.point.index,
        "values": chunk.point.values,
        "replications": [alone.replications.start, alone.replications.stop - 1],
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
    """Return the options that permit a command on the manifest to import the scenario's custom components."""
    names, code = custom_components(scenario), scenario.place.code
    folders = sorted({str(folder) for folder in map(code.folder_of, names) if folder is not None})
    return [f"--allow-code={folder}" for folder in folders] or ["--allow-code"] * bool(names)
