"""RO-Crate metadata of a run: structure, checksums, updates and additions by hand."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.storage.ro_crate import METADATA, refresh_crate, write_crate
from sim.storage.run_directory import RunDirectory
from tests.storage.places import a_run
from tests.support import HOSTILE, MakeScenario, files


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = a_run(tmp_path / "run")
    run.file("summary.csv").write_bytes(b"lppm\n")
    run.write_figure("tradeoff.svg", b"<svg/>")
    run.file("checkpoints/state").write_bytes(b"")
    (run.path / "notes.txt").write_text("mine")
    write_crate(run)
    return run


def entities(run: RunDirectory) -> dict[str, dict[str, Any]]:
    crate = json.loads(run.file(METADATA).read_text())
    assert crate["@context"][0] == "https://w3id.org/ro/crate/1.1/context"
    assert crate["@context"][1].keys() == {"sha256"}  # the only term that the context of RO-Crate 1.1 lacks
    ids = [one["@id"] for one in crate["@graph"]]
    assert len(ids) == len(set(ids))
    return {one["@id"]: one for one in crate["@graph"]}


def references(value: Any) -> list[str]:
    """Return the ids that a value refers to."""
    if isinstance(value, dict):
        return (
            [value["@id"]] if value.keys() == {"@id"} else [name for one in value.values() for name in references(one)]
        )
    return [name for one in value for name in references(one)] if isinstance(value, list) else []


def test_structure_of_the_standard(run: RunDirectory) -> None:
    graph = entities(run)
    descriptor, root = graph[METADATA], graph["./"]
    assert descriptor["@type"] == "CreativeWork"
    assert descriptor["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    assert descriptor["about"] == {"@id": "./"}
    assert root["@type"] == "Dataset"
    assert {"name", "description", "datePublished", "license"} <= root.keys()
    assert all("@type" in one for one in graph.values())
    targets = {name for one in graph.values() for name in references(list(one.values()))}
    assert targets - graph.keys() == {"https://w3id.org/ro/crate/1.1"}
    # Every entity is reachable, and every file is part of the root.
    assert graph.keys() - targets <= {METADATA}
    assert {one["@id"] for one in root["hasPart"]} == {n for n, one in graph.items() if one["@type"] == "File"}


def test_files_have_sizes_and_checksums(run: RunDirectory) -> None:
    content = files(run.path)
    expected = {"manifest.json", "summary.csv", "figures/tradeoff.svg", "events/r0.parquet", "events/r1.parquet"}
    listed = {name: one for name, one in entities(run).items() if one["@type"] == "File"}
    assert listed.keys() == expected
    for name, one in listed.items():
        assert one["contentSize"] == str(len(content[name]))
        assert one["sha256"] == hashlib.sha256(content[name]).hexdigest()
        assert "/" in one["encodingFormat"]


def test_refresh_describes_changed_files_and_does_not_read_parts(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = entities(run)
    run.file("summary.csv").write_bytes(b"changed\n")
    run.file("report.html").write_bytes(b"<html>")
    part = run.part_path("r0").read_bytes()
    run.part_path("r0").unlink()
    run.part_path("r0").write_bytes(b"not read")
    refresh_crate(run)
    run.part_path("r0").write_bytes(part)
    after = entities(run)
    assert after["events/r0.parquet"] == before["events/r0.parquet"]
    assert after["summary.csv"]["sha256"] == hashlib.sha256(b"changed\n").hexdigest()
    assert {"@id": "report.html"} in after["./"]["hasPart"]
    run.file("report.html").unlink()
    refresh_crate(run)
    assert "report.html" not in entities(run)


def test_refresh_does_not_create_metadata(run: RunDirectory) -> None:
    run.file(METADATA).unlink()
    refresh_crate(run)
    assert not run.has(METADATA)


def test_additions_by_hand_are_preserved(run: RunDirectory) -> None:
    crate = json.loads(run.file(METADATA).read_text())
    root = next(one for one in crate["@graph"] if one["@id"] == "./")
    licence = "https://creativecommons.org/licenses/by/4.0/"
    root |= {"license": {"@id": licence}, "datePublished": "2020-01-02", "author": {"@id": "#me"}, "name": "ignored"}
    root["hasPart"].append({"@id": "notes.txt"})
    added = [{"@id": "#me", "@type": "Person", "name": "Me"}, {"@id": "notes.txt", "@type": "File"}]
    added.append({"@id": licence, "@type": "CreativeWork"})
    run.file(METADATA).write_bytes(json.dumps(crate | {"@graph": [*crate["@graph"], *added]}).encode())
    for write in (refresh_crate, write_crate):
        write(run)
        graph = entities(run)
        assert graph["./"]["license"] == {"@id": licence}
        assert graph["./"]["datePublished"] == "2020-01-02"
        assert graph["./"]["name"] == "placed"
        assert {"@id": "notes.txt"} in graph["./"]["hasPart"]
        assert [graph[one["@id"]] for one in added] == added
        assert "#licence-not-specified" not in graph


@pytest.mark.parametrize(
    "damage", [b"", b"\xff", b"[]", b'{"@graph": 3}', b'{"@graph": [{"@id": "./", "hasPart": 3}]}']
)
def test_damaged_metadata_are_replaced(run: RunDirectory, damage: bytes) -> None:
    before = run.file(METADATA).read_bytes()
    run.file(METADATA).write_bytes(damage)
    refresh_crate(run)
    assert run.file(METADATA).read_bytes() == before


def test_the_date_is_reproducible(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    run.file(METADATA).unlink()
    write_crate(run)
    assert entities(run)["./"]["datePublished"] == "1970-01-02"


def test_a_finished_run_has_metadata_without_machine_paths(make_scenario: MakeScenario, tmp_path: Path) -> None:
    result = sim.run(make_scenario(description=HOSTILE[1]), out=tmp_path / "run", figures=False)
    text = result.run.file(METADATA).read_text()
    assert str(tmp_path) not in text
    assert entities(result.run)["./"]["description"] == HOSTILE[1]
    before = files(tmp_path / "run")
    assert {one["@id"] for one in entities(result.run)["./"]["hasPart"]} | {METADATA} == before.keys()
    sim.run(make_scenario(description=HOSTILE[1]), out=tmp_path / "run", figures=False)
    assert files(tmp_path / "run") == before


def test_a_run_under_a_url_has_the_same_metadata(run: RunDirectory, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    remote = RunDirectory(f"memory://{tmp_path.name}-crate")
    for name, content in files(run.path).items():
        if name not in ("notes.txt", METADATA):
            remote.file(name).write_bytes(content)
    write_crate(remote)
    assert remote.file(METADATA).read_bytes() == run.file(METADATA).read_bytes()
