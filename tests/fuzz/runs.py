"""Target `runs`: the directory of a finished run with one file damaged, read by every command and taken up again.

What must hold: a command ends with a `UserError`, or its result equals that of the undamaged run. A result that rests
on fewer parts is allowed where the output says so. Tables that are derived from the log (`summary.csv`, `metrics.csv`)
may be damaged freely, as they are written anew from it: after `summarize` and after a resumed run they must be right.
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
_SAID = re.compile(
    r"missing|incomplete|not finished|damaged|cannot be read|torn|skipped|left out|of \d+ (chunks|parts)"
)


class Runs:
    """Damage one file of a small finished run."""

    name = "runs"

    def __init__(self, assets: Path) -> None:
        self._base = assets / "finished-run"
        self._assets = assets
        if not self._base.exists():
            (assets / "fuzzed.yaml").write_text(SCENARIO)
            made = assets / f"making-{os.getpid()}"
            sim.run(load(assets / "fuzzed.yaml"), out=made, figures=False, chunk_queries=1)
            made.rename(self._base)

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
        """Give the damaged run to a command and compare with the undamaged one."""
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
    def _right(self) -> dict[str, Any]:
        return _everything(Result.open(self._base))

    def _read(self, case: dict[str, Any]) -> bool:
        """Read all frames through the API. A part that is not there shows in `parts`, so that a caller can tell."""
        result = Result.open(RUN)
        if case["damage"] == "delete" and result.run.parts() != result.manifest.parts:
            return False
        _same(_everything(result), self._right, case)
        return True

    def _summarize(self, case: dict[str, Any]) -> bool:
        accepted, output = command("summarize", RUN, "--metrics")
        if not accepted:
            return False
        tables = {name: Path(RUN, name).read_bytes() for name in DERIVED}
        _undo_damage()
        _, right = command("summarize", RUN, "--metrics")
        if _says_more(output, right):
            return False
        for name in DERIVED:
            if tables[name] != Path(RUN, name).read_bytes():
                raise ProblemError("summarize writes other numbers", f"{case}: {name}")
        if output != right:
            raise ProblemError("summarize prints something else", f"{case}: {_difference(output, right)}")
        return True

    def _export(self, case: dict[str, Any]) -> bool:
        accepted, output = command("export", RUN, "--format", case["form"], "-o", "damaged.out")
        if not accepted:
            return False
        _, right = command("export", OTHER, "--format", case["form"], "-o", "right.out")
        if Path("damaged.out").read_bytes() == Path("right.out").read_bytes() or _says_more(output, right):
            return True
        if "swap" in case["damage"] and case["form"] != "parquet":
            rows, expected = (sorted(Path(name).read_bytes().split(b"\n")) for name in ("damaged.out", "right.out"))
            if rows == expected:
                return True
        raise ProblemError("export writes other rows", f"{case}")

    def _status(self, case: dict[str, Any]) -> bool:
        accepted, output = command("status", RUN, "--json")
        if not accepted:
            return False
        _, right = command("status", OTHER, "--json")
        found, expected = json.loads(output), json.loads(right)
        told = found["torn"] or found["faults"] or found["failed"] or not found["finished"]
        keys = ("finished", "planned", "more_may_follow", "done", "rows")
        if not told and any(found[key] != expected[key] for key in keys):
            raise ProblemError("status says something else", f"{case}: {[(key, found[key]) for key in keys]}")
        command("status", RUN)
        return not told

    def _report(self, case: dict[str, Any]) -> bool:
        return self._page(case, [RUN])

    def _compare(self, case: dict[str, Any]) -> bool:
        return self._page(case, [RUN, OTHER])

    def _page(self, case: dict[str, Any], runs: list[str]) -> bool:
        found = page([Result.open(name) for name in runs])
        _undo_damage()
        right = page([Result.open(name) for name in runs])
        # Where parts are swapped, their rows are drawn in another order.
        if found != right and not _says_more(found, right) and case["damage"] != "swap":
            raise ProblemError("the report shows something else", f"{case}: {_difference(found, right)}")
        return True

    def _plot(self, _case: dict[str, Any]) -> bool:
        accepted, _ = command("plot", RUN)
        return accepted

    def _resume(self, case: dict[str, Any]) -> bool:
        """Run the scenario into the directory once more: afterwards all of it must be right."""
        result = sim.run(load("fuzzed.yaml"), out=RUN, figures=False, chunk_queries=1)
        _same(_everything(result), self._right, case)
        for name in ("summary.csv", "metrics.csv", "points.csv"):
            if Path(RUN, name).read_bytes() != (self._base / name).read_bytes():
                raise ProblemError("a resumed run leaves a wrong table", f"{case}: {name}")
        return True


def _undo_damage() -> None:
    """Put the undamaged run in the place of the damaged one, so that both are called alike in what is printed."""
    shutil.rmtree(RUN)
    shutil.copytree(OTHER, RUN)


def _says_more(output: str, right: str) -> bool:
    """Tell whether an output says that something is wrong which that of the undamaged run does not say."""
    return len(_SAID.findall(output)) > len(_SAID.findall(right))


def _damage(path: Path, files: list[Path], rng: Random) -> str:
    """Damage a file in one of many ways and return which."""
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
        case "digit":  # in a text file it stays well-formed
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


def _everything(result: Result) -> dict[str, Any]:
    """Return all that a run tells: frames, snapshots and the manifest."""
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


def _same(found: dict[str, Any], right: dict[str, Any], case: dict[str, Any]) -> None:
    for name, expected in right.items():
        value = found[name]
        if name in ("snapshots", "notes") and "swap" in case["damage"]:
            continue  # each part has its own, whatever it is called
        if isinstance(expected, pd.DataFrame):
            equal = expected.equals(value)
        elif name == "snapshots":
            equal = expected.keys() == value.keys() and all(map(_equal_arrays, expected.values(), value.values()))
        else:
            equal = expected == value
        if not equal:
            raise ProblemError(
                f"{name} differ without an error ({_kind(case['file'])})", f"{case}: {_shown(value, expected)}"
            )


def _equal_arrays(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(_content(one[name]) == _content(other[name]) for name in one)


def _content(array: Any) -> Any:
    """Return type, shape and bytes; whatever is no array differs from every array."""
    return (array.dtype, array.shape, array.tobytes()) if isinstance(array, np.ndarray) else None


def _kind(file: str) -> str:
    return file.partition("/")[0]


def _shown(found: Any, right: Any) -> str:
    if isinstance(right, dict) and isinstance(found, dict):
        keys = [key for key in {*right, *found} if not _alike(right.get(key), found.get(key))]
        return ", ".join(f"{key}: {found.get(key)!r:.150} instead of {right.get(key)!r:.150}" for key in keys[:2])
    return _difference(str(found), str(right))


def _alike(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except ValueError:  # arrays
        return False


def _difference(found: str, right: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(found, right, strict=False)) if a != b), min(len(found), len(right)))
    return f"found {found[max(at - 40, 0) : at + 60]!r}, expected {right[max(at - 40, 0) : at + 60]!r}"
