"""Damaged runs: every command reports the damage, and running the scenario again repairs it."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sim
from sim.errors import UserError
from sim.storage.event_schema import EVENTS
from sim.storage.parts import PARQUET_OPTIONS
from sim.storage.run_directory import RunDirectory
from tests.support import SMALL, MakeScenario, done, files, lppm_sim

SWEPT = "lppms.*.design.epsilon_per_km"
RECORDED = SMALL + "record: {expected: true, snapshots: [1, 5]}\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a scenario and its run."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.yaml").write_text(RECORDED)
    done("run", folder / "small.yaml", "-o", folder / "run", "--no-figures")
    return folder


@pytest.fixture
def a_run(finished: Path, tmp_path: Path) -> Path:
    """Return a copy of the run, beside its scenario."""
    shutil.copy(finished / "small.yaml", tmp_path / "small.yaml")
    shutil.copytree(finished / "run", tmp_path / "run")
    return tmp_path / "run"


def cut(path: Path) -> None:
    """Truncate a file to half its size."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path, place: float) -> None:
    """Flip a bit at a relative position of a file."""
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 2
    path.write_bytes(bytes(content))


def change_manifest(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a manifest and remove its checksum, as in manifests of earlier versions."""
    content = json.loads(path.read_text())
    del content["checksum"]
    change(content)
    path.write_text(json.dumps(content))


def first(run: Path, folder: str) -> Path:
    """Return the first file in a folder of a run."""
    return min((run / folder).iterdir())


HARMS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Any]]] = {
    "manifest cut": (lambda run: run / "manifest.json", cut),
    "manifest empty": (lambda run: run / "manifest.json", lambda path: path.write_bytes(b"")),
    "manifest without scenario": (
        lambda run: run / "manifest.json",
        lambda path: change_manifest(path, lambda content: content.pop("scenario")),
    ),
    "manifest without parts": (
        lambda run: run / "manifest.json",
        lambda path: change_manifest(path, lambda content: content.pop("parts")),
    ),
    "manifest with another seed": (
        lambda run: run / "manifest.json",
        lambda path: path.write_text(path.read_text().replace('"seed": 3', '"seed": 2')),
    ),
    "manifest of lists": (
        lambda run: run / "manifest.json",
        lambda path: change_manifest(path, lambda content: content.update(worlds=[[]])),
    ),
    "points changed": (
        lambda run: run / "points.csv",
        lambda path: path.write_text(path.read_text().replace("0.5", "0.7")),
    ),
    "points not UTF-8": (lambda run: run / "points.csv", lambda path: path.write_bytes(b"\xff\xfe")),
    "part cut": (lambda run: first(run, "events"), cut),
    "part footer": (lambda run: first(run, "events"), lambda path: flip(path, 0.999)),
    "part rows": (lambda run: first(run, "events"), lambda path: flip(path, 0.2)),
    "snapshots cut": (lambda run: first(run, "snapshots"), cut),
    "snapshots flipped": (lambda run: first(run, "snapshots"), lambda path: flip(path, 0.5)),
}

COMMANDS: dict[str, list[str]] = {
    "summarize": ["summarize", "RUN", "--metrics"],
    "plot": ["plot", "RUN"],
    "report": ["report", "RUN"],
    "compare": ["compare", "RUN", "WHOLE", "-o", "OUT/compare.html"],
    "export": ["export", "RUN", "-o", "OUT/events.csv"],
    "status": ["status", "RUN"],
    "adaptation": ["adaptation", "RUN"],
    "profiles": ["plot", "RUN", "--figure", "profiles", "-o", "OUT/profiles.pdf"],
    "run": ["run", "RUN/manifest.json", "-o", "OUT/again", "--no-figures"],
}


def command(name: str, run: Path, whole: Path) -> Any:
    """Run one of `COMMANDS` on a run, with an intact run for comparisons."""
    out = run.parent / "out"
    out.mkdir(exist_ok=True)
    places = {"RUN": run, "WHOLE": whole, "OUT": out}
    return lppm_sim(*(re.sub("RUN|WHOLE|OUT", lambda name: str(places[name[0]]), word) for word in COMMANDS[name]))


@pytest.mark.parametrize("harm", HARMS)
def test_every_command_reports_the_damage_and_the_repair(a_run: Path, finished: Path, harm: str) -> None:
    """A command that does not read the damaged file works as before."""
    where, damage = HARMS[harm]
    path = where(a_run)
    damage(path)
    named = []
    for name in COMMANDS:
        shutil.rmtree(a_run.parent / "out", ignore_errors=True)
        result = command(name, a_run, finished / "run")
        output = result.output + result.stderr
        if path.name in re.sub(r"\n\s*", "", output) and (result.exit_code != 0 or name == "status"):
            assert f"lppm-sim run SCENARIO -o {a_run}" in output.replace("\n", " "), (name, output)
            named.append(name)
        elif name == "adaptation":
            assert "[no-shift]" in output, "as for the intact run"
        else:
            assert result.exit_code == 0, (name, output)
        if name == "status" and harm in ("part cut", "part footer"):
            assert f"{path.stem}: " in output
    kind = harm.split(maxsplit=1)[0]
    everything = set(COMMANDS)
    assert (
        set(named)
        >= {
            "manifest": everything,
            "points": {"summarize", "plot", "report", "compare"},
            "part": {"summarize", "plot", "report", "compare", "export"},
            "snapshots": {"summarize", "report", "compare", "profiles"},
        }[kind]
    ), named


@pytest.mark.parametrize("harm", HARMS)
def test_running_the_scenario_again_repairs_the_damage(a_run: Path, finished: Path, harm: str) -> None:
    where, damage = HARMS[harm]
    path = where(a_run)
    damage(path)
    result = lppm_sim("run", a_run.parent / "small.yaml", "-o", a_run, "--no-figures")
    assert result.exit_code == 0, result.output
    notes = result.stderr.replace("\n", " ")
    if harm.startswith("manifest"):
        assert str(path) in notes
    elif not harm.startswith("points"):
        assert f"part {path.stem} " in notes
    theirs, ours = files(finished / "run"), files(a_run)
    for content in (theirs, ours):
        content["manifest.json"] = content["ro-crate-metadata.json"] = b""  # the folder, and a checksum over it
    assert ours == theirs


def test_a_rebuilt_manifest_equals_the_original(a_run: Path) -> None:
    before = RunDirectory(a_run).manifest().content
    (a_run / "manifest.json").write_text("{")
    done("run", a_run.parent / "small.yaml", "-o", a_run, "--no-figures")
    after = RunDirectory(a_run).manifest().content
    assert after | {"folder": before["folder"]} == before


def test_a_rebuilt_manifest_rejects_parts_of_other_input_files(make_scenario: MakeScenario, tmp_path: Path) -> None:
    """The parts have equal names; only their input files differ."""
    traces = "user,time_s,cell\n" + "".join(f"ann,{60 * i},{i % 5}\n" for i in range(30))
    (tmp_path / "t.csv").write_text(traces)
    users = {"mobility": {"kind": "replay", "file": "t.csv"}, "past_share": 0.5}
    scenario = make_scenario(users=users, training={"past": {"kind": "own_past"}}).at(tmp_path, None)
    sim.run(scenario, out=tmp_path / "run", figures=False)
    for harm in (Path.unlink, cut):
        (tmp_path / "t.csv").write_text(traces)
        sim.run(scenario, out=tmp_path / "run", figures=False)
        (tmp_path / "t.csv").write_text(traces.replace(",4\n", ",5\n"))
        harm(tmp_path / "run" / "manifest.json")
        with pytest.raises(UserError, match=r"\.parquet"):
            sim.run(scenario, out=tmp_path / "run", figures=False)


def test_parts_without_a_run_digest_need_a_manifest(make_scenario: MakeScenario, tmp_path: Path) -> None:
    run = sim.run(make_scenario(), out=tmp_path / "run", figures=False).run
    (part,) = run.parts()
    table, sink = run.read_part(part), io.BytesIO()
    with pq.ParquetWriter(sink, EVENTS, **PARQUET_OPTIONS) as writer:
        writer.add_key_value_metadata({"lppm_sim": json.dumps(run.notes(part))})
        writer.write_table(table)
    run.part_path(part).write_bytes(sink.getvalue())
    assert sim.run(make_scenario(), out=tmp_path / "run", figures=False).events().equals(table.to_pandas())
    assert run.part_path(part).read_bytes() == sink.getvalue(), "with a manifest it is accepted"
    (tmp_path / "run" / "manifest.json").unlink()
    with pytest.raises(UserError, match=part):
        sim.run(make_scenario(), out=tmp_path / "run", figures=False)


def test_a_single_chunk_does_not_rebuild_a_manifest(a_run: Path) -> None:
    part = first(a_run, "events").stem
    cut(a_run / "manifest.json")
    result = lppm_sim("run", a_run.parent / "small.yaml", "-o", a_run, "--chunk", part)
    assert result.exit_code == 1
    assert "[damaged-manifest]" in result.stderr
