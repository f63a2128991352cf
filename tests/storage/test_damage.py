"""Damaged runs: a flipped bit is found or changes nothing, every command says so, and the same command repairs it."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sim
from sim.errors import UserError
from sim.storage import archives, manifest, parts
from sim.storage.errors import DamagedRun
from sim.storage.event_schema import EVENTS, SCHEMA_VERSION
from sim.storage.parts import PARQUET_OPTIONS, DamagedPart
from sim.storage.run_directory import RunDirectory
from tests.storage.test_run_directory import events
from tests.support import SMALL, MakeScenario, a_manifest, done, files, lppm_sim

NOTES = {"SP-Exp": {"attack_fallbacks": {"markov": 3}, "worst_gap": 1e-9}}
ABOUT = {"part": "p", "run": "digest"}
SWEPT = "lppms.*.design.epsilon_per_km"
RECORDED = SMALL + "record: {expected: true, snapshots: [1, 5]}\n"


def flips(content: bytes, bits: tuple[int, ...] = (0, 5)) -> Iterator[bytes]:
    """Yield the content with one bit flipped: in every byte these bits, and one more that depends on its place."""
    changed = bytearray(content)
    for place in range(len(content)):
        for bit in {*bits, place % 8}:
            changed[place] ^= 1 << bit
            yield bytes(changed)
            changed[place] ^= 1 << bit


def a_part(n: int = 5) -> bytes:
    table = events(n).set_column(1, EVENTS.field("shift"), pa.array(["move", None] * n, pa.string())[:n])
    return parts.encode(table, **ABOUT, notes=NOTES)


def read(content: bytes) -> tuple[pa.Table, Any, Any]:
    """Return all that readers take from a part."""
    with parts.opened(io.BytesIO(content), place="p.parquet", remedy="Run again.") as part:
        shift = part.metadata.row_group(0).column(1).statistics
        assert shift is not None
        return part.read(), (part.notes, part.part, part.run), (part.metadata.num_rows, shift.null_count, shift.min)


def test_every_flipped_bit_of_a_part_is_found_or_changes_nothing() -> None:
    content = a_part()
    whole = read(content)
    assert whole[1] == (NOTES, "p", "digest")
    reasons = []
    for changed in flips(content):
        try:
            assert read(changed) == whole
        except DamagedPart as error:
            reasons.append(str(error))
    assert all(re.fullmatch(r"(?s)p\.parquet cannot be read: .+\. Run again\.", reason) for reason in reasons)
    assert len(reasons) > 2 * (len(content) - 100), "hardly a byte is unused"


def test_every_cut_part_is_found() -> None:
    content = a_part()
    for length in range(len(content)):
        with pytest.raises(DamagedPart):
            read(content[:length])


@pytest.mark.parametrize("column", EVENTS.names)
def test_a_column_is_verified_when_it_is_read(column: str) -> None:
    """Damage to one column is found by its readers alone, wherever it is: in headers, dictionaries or values."""
    content = a_part(50)
    metadata = pq.read_metadata(io.BytesIO(content)).row_group(0).column(EVENTS.get_field_index(column))
    start = metadata.dictionary_page_offset or metadata.data_page_offset
    others = [name for name in EVENTS.names if name != column]
    for place in (start, start + 1, start + metadata.total_compressed_size - 1):
        changed = bytearray(content)
        changed[place] ^= 4
        with parts.opened(io.BytesIO(bytes(changed)), place="p", remedy="") as part:
            assert part.read(others).num_rows == 50
            with pytest.raises(DamagedPart, match=f"the checksum of column {column} does not match"):
                part.read([column])
            with pytest.raises(DamagedPart):
                part.verify()


def test_rows_in_several_row_groups_and_none_are_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_rows(parts.encode(EVENTS.empty_table(), **ABOUT, notes={})) == EVENTS.empty_table()
    table = events(100)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", _in_small_groups(pq.ParquetWriter.write_table))
    content = parts.encode(table, **ABOUT, notes={})
    metadata = pq.read_metadata(io.BytesIO(content))
    assert metadata.num_row_groups == 4
    assert read_rows(content) == table.cast(EVENTS)
    chunk = metadata.row_group(3).column(EVENTS.get_field_index("user"))
    changed = bytearray(content)
    changed[chunk.data_page_offset] ^= 1
    with pytest.raises(DamagedPart, match="column user"):
        read_rows(bytes(changed))


def _in_small_groups(write: Callable[..., None]) -> Callable[..., None]:
    return lambda self, table: write(self, table, row_group_size=25)


def read_rows(content: bytes) -> pa.Table:
    with parts.opened(io.BytesIO(content), place="p", remedy="") as part:
        return part.read()


def an_earlier_part(notes: str = json.dumps(NOTES)) -> bytes:
    """Return a part as it was written before there were checksums of columns."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, EVENTS, **PARQUET_OPTIONS) as writer:
        writer.add_key_value_metadata({"lppm_sim": notes})
        writer.write_table(events(5))
    return sink.getvalue()


def test_parts_of_earlier_versions_are_read() -> None:
    content = an_earlier_part()
    with parts.opened(io.BytesIO(content), place="p", remedy="") as part:
        assert part.read() == events(5).cast(EVENTS)
        assert (part.notes, part.part, part.run) == (NOTES, None, None)
        part.verify()
    notes = json.dumps(NOTES).encode()
    start = content.index(notes)
    for changed in flips(notes):  # less is promised of these: no other error than the named one
        with suppress(DamagedPart):
            read_rows(content[:start] + changed + content[start + len(notes) :])
    for strange in ("{", "[]", "\x80"):
        with pytest.raises(DamagedPart):
            read_rows(an_earlier_part(strange))


def test_a_part_under_another_s_name_is_found(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run")
    run.write_part("a", events())
    shutil.copy(run.path / "events" / "a.parquet", run.path / "events" / "b.parquet")
    with pytest.raises(DamagedRun, match=r"b.parquet cannot be read: it holds part a. `lppm-sim run SCENARIO -o "):
        run.read_part("b")
    assert [part for part, _ in run.check_parts(thorough=False)] == ["b"]


ARRAYS: dict[str, Any] = {"profile": np.arange(12.0).reshape(3, 4), "user": np.array(["ann", "bob"])}


def test_every_flipped_bit_of_an_archive_is_found_or_changes_nothing() -> None:
    content = archives.packed(ARRAYS)
    for changed in flips(content, bits=tuple(range(8))):
        with pytest.raises(archives.DamagedArchive):
            archives.unpacked(changed)
    for length in range(len(content)):
        with pytest.raises(archives.DamagedArchive):
            archives.unpacked(content[:length])
    found = archives.unpacked(content, ["user", "none"])
    assert list(found) == ["user"]
    assert found["user"].tolist() == ["ann", "bob"]


def test_archives_of_earlier_versions_are_read() -> None:
    sink = io.BytesIO()
    np.savez_compressed(sink, **ARRAYS)
    assert archives.unpacked(sink.getvalue())["profile"].tolist() == ARRAYS["profile"].tolist()
    for changed in flips(sink.getvalue()):
        with suppress(archives.DamagedArchive):  # less is promised of these: no other error than the named one
            archives.unpacked(changed)


def test_every_flipped_bit_of_a_manifest_is_found_or_changes_nothing() -> None:
    content = a_manifest(scenario={"name": "é"}, seed=3, worlds=[{"points": [0], "grid": {"x": 1.5}, "traces": {}}])
    encoded = manifest.encode(content | {"schema_version": SCHEMA_VERSION})
    whole = manifest.decode(encoded)
    assert whole == content | {"schema_version": SCHEMA_VERSION}
    for changed in flips(encoded, bits=tuple(range(8))):
        with suppress(manifest.DamagedManifest):
            assert manifest.decode(changed) == whole


def test_a_manifest_without_checksum_is_held_to_keys_and_types() -> None:
    """Those of earlier versions have none."""
    content = a_manifest(notes=[{"point": 0, "lppm": "SP"}], failures=[]) | {"schema_version": 3}
    assert manifest.decode(json.dumps(content).encode()) == content
    for key in a_manifest():
        without = {name: value for name, value in content.items() if name != key}
        with pytest.raises(manifest.DamagedManifest, match=f"`{key}` is missing"):
            manifest.decode(json.dumps(without).encode())
    for key in content:
        for strange in (None, 1.5, [[3]], {"a": 3} if key != "scenario" else {}):
            if type(strange) is type(content[key]) and key not in (
                "parts",
                "worlds",
                "repetitions",
                "notes",
                "failures",
            ):
                continue
            with pytest.raises(manifest.DamagedManifest, match=key):
                manifest.decode(json.dumps(content | {key: strange}).encode())


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"null", b"\xff", b"{}", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_what_is_no_manifest_is_named(raw: bytes) -> None:
    with pytest.raises(manifest.DamagedManifest):
        manifest.decode(raw)


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
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path, place: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 2
    path.write_bytes(bytes(content))


def change_manifest(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a manifest as an editor would, or an earlier version: without its checksum."""
    content = json.loads(path.read_text())
    del content["checksum"]
    change(content)
    path.write_text(json.dumps(content))


def first(run: Path, folder: str) -> Path:
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
    out = run.parent / "out"
    out.mkdir(exist_ok=True)
    places = {"RUN": run, "WHOLE": whole, "OUT": out}
    return lppm_sim(*(re.sub("RUN|WHOLE|OUT", lambda name: str(places[name[0]]), word) for word in COMMANDS[name]))


@pytest.mark.parametrize("harm", HARMS)
def test_every_command_names_the_damage_and_the_command_that_repairs_it(a_run: Path, finished: Path, harm: str) -> None:
    """A command that does not read the damaged file does as ever: no traceback, and no changed number."""
    where, damage = HARMS[harm]
    path = where(a_run)
    damage(path)
    named = []
    for name in COMMANDS:
        shutil.rmtree(a_run.parent / "out", ignore_errors=True)
        found = command(name, a_run, finished / "run")
        said = found.output + found.stderr
        if path.name in re.sub(r"\n\s*", "", said) and (found.exit_code != 0 or name == "status"):
            assert f"lppm-sim run SCENARIO -o {a_run}" in said.replace("\n", " "), (name, said)
            named.append(name)
        elif name == "adaptation":
            assert "no shift" in said, "as of the whole run"
        else:
            assert found.exit_code == 0, (name, said)
        if name == "status" and harm in ("part cut", "part footer"):
            assert f"{path.stem}: it is simulated again by the next run" in said
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
def test_the_same_command_repairs_it(a_run: Path, finished: Path, harm: str) -> None:
    where, damage = HARMS[harm]
    path = where(a_run)
    damage(path)
    found = lppm_sim("run", a_run.parent / "small.yaml", "-o", a_run, "--no-figures")
    assert found.exit_code == 0, found.output
    said = found.stderr.replace("\n", " ")
    if harm.startswith("manifest"):
        assert f"{path} is damaged and rebuilt from the scenario and the parts: " in said
    elif not harm.startswith("points"):
        assert f"part {path.stem} is damaged and simulated again: " in said
    theirs, ours = files(finished / "run"), files(a_run)
    for content in (theirs, ours):
        content["manifest.json"] = b""  # it names the folder
    assert ours == theirs


def test_a_rebuilt_manifest_is_the_same(a_run: Path) -> None:
    before = RunDirectory(a_run).manifest()
    (a_run / "manifest.json").write_text("{")
    done("run", a_run.parent / "small.yaml", "-o", a_run, "--no-figures")
    after = RunDirectory(a_run).manifest()
    assert after | {"folder": before["folder"]} == before


def test_a_rebuilt_manifest_takes_no_parts_of_other_input_files(make_scenario: MakeScenario, tmp_path: Path) -> None:
    """The parts have the same names; only what they were made from differs."""
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
        with pytest.raises(UserError, match=r"\.parquet belongs to another run: its scenario, input files"):
            sim.run(scenario, out=tmp_path / "run", figures=False)


def test_without_a_manifest_parts_must_say_which_run_they_belong_to(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    run = sim.run(make_scenario(), out=tmp_path / "run", figures=False).run
    (part,) = run.parts()
    table, sink = run.read_part(part), io.BytesIO()
    with pq.ParquetWriter(sink, EVENTS, **PARQUET_OPTIONS) as writer:
        writer.add_key_value_metadata({"lppm_sim": json.dumps(run.notes(part))})
        writer.write_table(table)
    run.part_path(part).write_bytes(sink.getvalue())
    assert sim.run(make_scenario(), out=tmp_path / "run", figures=False).events().equals(table.to_pandas())
    assert run.part_path(part).read_bytes() == sink.getvalue(), "with a manifest it is taken as it is"
    (tmp_path / "run" / "manifest.json").unlink()
    with pytest.raises(UserError, match="written by an earlier version, and without a manifest"):
        sim.run(make_scenario(), out=tmp_path / "run", figures=False)


def test_a_chunk_alone_does_not_rebuild_a_manifest(a_run: Path) -> None:
    part = first(a_run, "events").stem
    cut(a_run / "manifest.json")
    found = lppm_sim("run", a_run.parent / "small.yaml", "-o", a_run, "--chunk", part)
    assert found.exit_code == 1
    assert "manifest.json is damaged" in found.stderr
