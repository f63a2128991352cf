"""Target `runs`: the directory of a finished run with one damaged file, read by every command and resumed.

Property: a command ends with a `UserError`, or its result equals that of the undamaged run. A result from fewer parts
is allowed if the output reports it. Tables that are derived from the log (`summary.csv`, `metrics.csv`) may be damaged
freely, since they are recomputed from it: after `summarize` and after a resumed run they must be correct.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd

import sim
from sim.analysis.result import Result
from sim.report import page
from sim.storage.load import load
from tests.fuzz.harness import ProblemError, command

SCENARIO = """
name: fuzzed
seed: 5
replications: 2
world: {grid: {kind: rectangle, rows: 3, cols: 4, width_km: 4, height_km: 3}}
users: {count: 2, queries: 6, mobility: {kind: favourites, places: 3}}
training: {others: {kind: others, count: 3, queries: 8}}
lppms: [SP-Exp, PEB-Exp]
attacks: [sporadic, markov]
record: {snapshots: [1, 3], posterior: true}
sweep: {"lppms.*.design.epsilon_per_km": [0.5, 2]}
"""
CASE, RUN, OTHER = "case.json", "run", "other"
DERIVED = ("summary.csv", "metrics.csv")
ACTIONS = {
    "read": 30,
    "summarize": 15,
    "export": 12,
    "status": 12,
    "report": 2,
    "compare": 1,
    "plot": 0.5,
    "resume": 18,
}
_REPORTED = re.compile(
    r"missing|incomplete|(not |un)finished|damaged|corrupt|cannot (be )?read|unreadable|torn|truncated|skipped|left out"
    r"|omitted|ignored|of \d+ (chunks|parts)"
)
"""Words by which an output reports that parts of a run are damaged or missing."""


class Runs:
    """A small finished run with one damaged file."""

    name = "runs"

    def __init__(self, assets: Path) -> None:
        self._base = assets / "finished-run"
        self._assets = assets
        if not self._base.exists():
            (assets / "fuzzed.yaml").write_text(SCENARIO)
            unfinished = assets / f"making-{os.getpid()}"
            sim.run(load(assets / "fuzzed.yaml"), out=unfinished, figures=False, chunk_queries=1)
            unfinished.rename(self._base)

    def make(self, rng: Random, folder: Path) -> None:
        """Copy the run and damage one of its files."""
        shutil.copytree(self._base, folder / RUN)
        shutil.copytree(self._base, folder / OTHER)
        shutil.copy(self._assets / "fuzzed.yaml", folder)
        files = sorted(path for path in (folder / RUN).rglob("*") if path.is_file())
        chosen = rng.choice(files)
        damage = _damage(chosen, files, rng)
        action = rng.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        case = {"action": action, "file": str(chosen.relative_to(folder / RUN)), "damage": damage}
        case["form"] = rng.choice(("csv", "jsonl", "parquet"))
        (folder / CASE).write_text(json.dumps(case))

    def drive(self, folder: Path) -> bool:
        """Run a command on the damaged run and compare the result with that of the undamaged one."""
        case = json.loads((folder / CASE).read_bytes())
        actions: dict[str, Callable[[dict[str, Any]], bool]] = {
            "read": self._read,
            "summarize": self._summarize,
            "export": self._export,
            "status": self._status,
            "report": self._report,
            "compare": self._compare,
            "plot": self._plot,
            "resume": self._resume,
        }
        return actions[case["action"]](case)

    @cached_property
    def _expected(self) -> dict[str, Any]:
        return _content_of(Result.open(self._base))

    def _read(self, case: dict[str, Any]) -> bool:
        """Read all frames through the API. A missing part is visible to the caller in `parts`."""
        result = Result.open(RUN)
        if case["damage"] == "delete" and result.run.parts() != result.manifest.parts:
            return False
        _require_same(_content_of(result), self._expected, case)
        return True

    def _summarize(self, case: dict[str, Any]) -> bool:
        accepted, output = command("summarize", RUN, "--metrics")
        if not accepted:
            return False
        tables = {name: Path(RUN, name).read_bytes() for name in DERIVED}
        _undo_damage()
        _, expected = command("summarize", RUN, "--metrics")
        if _reports_damage(output, expected):
            return False
        for name in DERIVED:
            if tables[name] != Path(RUN, name).read_bytes():
                raise ProblemError("summarize writes other numbers", f"{case}: {name}")
        if output != expected:
            raise ProblemError("summarize prints other output", f"{case}: {_difference(output, expected)}")
        return True

    def _export(self, case: dict[str, Any]) -> bool:
        files = ("damaged.out", "expected.out")
        accepted, output = command("export", RUN, "--format", case["form"], "-o", files[0])
        if not accepted:
            return False
        _, expected = command("export", OTHER, "--format", case["form"], "-o", files[1])
        if Path(files[0]).read_bytes() == Path(files[1]).read_bytes() or _reports_damage(output, expected):
            return True
        if "swap" in case["damage"] and case["form"] != "parquet":
            rows, expected_rows = (sorted(Path(name).read_bytes().split(b"\n")) for name in files)
            if rows == expected_rows:
                return True
        raise ProblemError("export writes other rows", f"{case}")

    def _status(self, case: dict[str, Any]) -> bool:
        accepted, output = command("status", RUN, "--json")
        if not accepted:
            return False
        _, output_of_other = command("status", OTHER, "--json")
        status, expected = json.loads(output), json.loads(output_of_other)
        reported = status["torn"] or status["faults"] or status["failed"] or not status["finished"]
        keys = ("finished", "planned", "more_may_follow", "done", "rows")
        if not reported and any(status[key] != expected[key] for key in keys):
            raise ProblemError("status prints other values", f"{case}: {[(key, status[key]) for key in keys]}")
        command("status", RUN)
        return not reported

    def _report(self, case: dict[str, Any]) -> bool:
        return self._page(case, [RUN])

    def _compare(self, case: dict[str, Any]) -> bool:
        return self._page(case, [RUN, OTHER])

    def _page(self, case: dict[str, Any], runs: list[str]) -> bool:
        report = page([Result.open(name) for name in runs])
        _undo_damage()
        expected = page([Result.open(name) for name in runs])
        # If parts are swapped, the order of their rows in figures differs.
        if report != expected and not _reports_damage(report, expected) and case["damage"] != "swap":
            raise ProblemError("the report has other content", f"{case}: {_difference(report, expected)}")
        return True

    def _plot(self, _case: dict[str, Any]) -> bool:
        accepted, _ = command("plot", RUN)
        return accepted

    def _resume(self, case: dict[str, Any]) -> bool:
        """Resume the run in the damaged directory; its whole content must then be correct."""
        result = sim.run(load("fuzzed.yaml"), out=RUN, figures=False, chunk_queries=1)
        _require_same(_content_of(result), self._expected, case)
        for name in ("summary.csv", "metrics.csv", "points.csv"):
            if Path(RUN, name).read_bytes() != (self._base / name).read_bytes():
                raise ProblemError("a resumed run leaves an incorrect table", f"{case}: {name}")
        return True


def _undo_damage() -> None:
    """Replace the damaged run by the undamaged one, so that both have the same name in outputs."""
    shutil.rmtree(RUN)
    shutil.copytree(OTHER, RUN)


def _reports_damage(output: str, expected: str) -> bool:
    """Return whether an output reports more problems than that of the undamaged run."""
    return len(_REPORTED.findall(output)) > len(_REPORTED.findall(expected))


def _damage(path: Path, files: list[Path], rng: Random) -> str:
    """Damage a file in a random way and return the name of that way."""
    content = path.read_bytes()
    way = rng.choices(("flip", "digit", "cut", "zeros", "delete", "copy over", "swap"), (48, 15, 10, 10, 6, 4, 7))[0]
    alike = [other for other in files if other != path and other.parent == path.parent and other.suffix == path.suffix]
    if way in ("copy over", "swap") and not alike:
        way = "flip"
    match way:
        case "flip":
            changed = bytearray(content)
            for _ in range(rng.randint(1, 3)):
                at = (
                    rng.randrange(len(changed))
                    if rng.random() < 0.7
                    else rng.randrange(max(len(changed) - 600, 0), len(changed))
                )
                changed[at] ^= 1 << rng.randrange(8)
            path.write_bytes(changed)
        case "digit":  # a text file remains well-formed
            digits = [i for i, byte in enumerate(content) if 48 <= byte <= 57] or [0]
            at = rng.choice(digits)
            path.write_bytes(content[:at] + rng.choice(b"0123456789").to_bytes() + content[at + 1 :])
        case "cut":
            path.write_bytes(content[: rng.randrange(len(content))])
        case "zeros":
            start = rng.randrange(len(content))
            length = min(rng.choice((1, 8, 64, 10_000)), len(content) - start)
            path.write_bytes(content[:start] + bytes(length) + content[start + length :])
        case "delete":
            path.unlink()
        case "copy over":
            path.write_bytes(rng.choice(alike).read_bytes())
        case _:
            other = rng.choice(alike)
            path.write_bytes(other.read_bytes())
            other.write_bytes(content)
    return way


def _content_of(result: Result) -> dict[str, Any]:
    """Return the whole content of a run: frames, snapshots and the manifest."""
    run = result.run
    events = result.events()
    keys = ["point", "replication", "lppm", "attack", "user", "index", "estimated_index"]
    manifest = {key: value for key, value in result.manifest.content.items() if key not in ("folder", "files")}
    return {
        "events": events.sort_values(keys, ignore_index=True),
        "summary": result.summary(),
        "metrics": result.metrics(),
        "over time": result.over_time(),
        "points": result.points(),
        "snapshots": {part: run.snapshots(part) for part in run.parts()},
        "notes": {part: run.notes(part) for part in run.parts()},
        "manifest": manifest,
    }


def _require_same(content: dict[str, Any], expected_content: dict[str, Any], case: dict[str, Any]) -> None:
    for name, expected in expected_content.items():
        value = content[name]
        if name in ("snapshots", "notes") and "swap" in case["damage"]:
            continue  # these are stored per part, under the name of the part
        if isinstance(expected, pd.DataFrame):
            equal = expected.equals(value)
        elif name == "snapshots":
            equal = expected.keys() == value.keys() and all(map(_equal_arrays, expected.values(), value.values()))
        else:
            equal = expected == value
        if not equal:
            raise ProblemError(
                f"{name} differ without an error ({_kind(case['file'])})", f"{case}: {_differences(value, expected)}"
            )


def _equal_arrays(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(_array_key(one[name]) == _array_key(other[name]) for name in one)


def _array_key(array: Any) -> Any:
    """Return type, shape and bytes of an array, None for any other object."""
    return (array.dtype, array.shape, array.tobytes()) if isinstance(array, np.ndarray) else None


def _kind(file: str) -> str:
    return file.partition("/")[0]


def _differences(value: Any, expected: Any) -> str:
    if isinstance(expected, dict) and isinstance(value, dict):
        keys = [key for key in {*expected, *value} if not _equal(expected.get(key), value.get(key))]
        return ", ".join(f"{key}: {value.get(key)!r:.150} instead of {expected.get(key)!r:.150}" for key in keys[:2])
    return _difference(str(value), str(expected))


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except ValueError:  # arrays
        return False


def _difference(text: str, expected: str) -> str:
    pairs = enumerate(zip(text, expected, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(text), len(expected)))
    return f"found {text[max(at - 40, 0) : at + 60]!r}, expected {expected[max(at - 40, 0) : at + 60]!r}"
