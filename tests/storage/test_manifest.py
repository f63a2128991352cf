"""The manifest: typed, verified, and parsed once."""

from __future__ import annotations

import json
import pickle
from contextlib import suppress
from pathlib import Path

import pytest

import sim
from sim.scenario.reading.faults import ScenarioError
from sim.scenario.sweep import points
from sim.storage.errors import RequestError
from sim.storage.manifest import DamagedManifest, OtherSchema, RunManifest
from sim.storage.manifest_file import decode, encode
from sim.storage.run_directory import RunDirectory
from tests.storage.helpers import flips
from tests.support import HOSTILE, MakeScenario, a_manifest, manifest_content, raises_code


def test_manifest(run: RunDirectory) -> None:
    content = manifest_content(b=[1, 2.5], a="é")
    path = run.write_manifest(RunManifest.of(content))
    assert run.manifest().content == RunDirectory(run.place).manifest().content == content
    assert path.read_text().startswith('{\n  "a": "é",\n  "b"')
    before = path.read_bytes()
    with pytest.raises(ValueError, match="finite"):
        run.write_manifest(a_manifest(a=float("nan")))
    assert path.read_bytes() == before


def test_every_flipped_bit_of_a_manifest_is_detected_or_harmless() -> None:
    world = {"points": [0], "grid": {"x": 1.5}, "traces": {}}
    content = manifest_content(scenario={"name": "é"}, seed=3, worlds=[world])
    encoded = encode(content)
    assert decode(encoded).content == content
    for changed in flips(encoded, bits=tuple(range(8))):
        with suppress(DamagedManifest):
            assert decode(changed).content == content


def test_keys_and_types_of_a_manifest_without_checksum_are_verified() -> None:
    """Manifests of earlier versions have no checksum."""
    content = manifest_content(notes=[{"point": 0, "lppm": "SP"}], failures=[])
    assert decode(json.dumps(content).encode()).content == content
    for key in manifest_content().keys() - {"schema_version"}:
        without = {name: value for name, value in content.items() if name != key}
        with pytest.raises(DamagedManifest, match=f"`{key}`"):
            decode(json.dumps(without).encode())
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
            with pytest.raises(DamagedManifest, match=key):
                decode(json.dumps(content | {key: strange}).encode())


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"null", b"\xff", b"{}", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_an_invalid_manifest_is_refused(raw: bytes) -> None:
    with pytest.raises(DamagedManifest):
        decode(raw)


def test_a_manifest_is_parsed_again_only_if_it_has_changed(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in progress and other processes write new manifests."""
    parsed = counted(monkeypatch)
    run.write_manifest(a_manifest(parts=["a"], finished=False))
    reader = RunDirectory.open(run.place)
    assert [reader.manifest().parts for _ in range(3)] == [["a"]] * 3
    assert reader.frozen().manifest() is reader.manifest()
    assert len(parsed) == 1
    run.write_manifest(a_manifest(parts=["a", "b"], finished=False))
    assert reader.manifest().parts == ["a", "b"]
    assert len(parsed) == 2


def test_the_scenario_is_validated_once_while_the_manifest_changes(
    local: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = RunDirectory(local.path).manifest().scenario
    reader = RunDirectory(local.path)
    first = reader.manifest().scenario
    assert first == scenario
    assert first is not scenario
    local.write_manifest(local.manifest().updated(parts=["a"]))
    assert reader.manifest().parts == ["a"]
    assert reader.manifest().scenario is first
    local.write_manifest(a_manifest(scenario={"name": "other"}))
    assert reader.manifest().scenario.name == "other"


def test_a_run_parses_its_manifest_at_most_twice_and_never_validates_the_scenario_again(
    make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = make_scenario()
    parsed = counted(monkeypatch)
    monkeypatch.setattr("sim.storage.manifest.validate", lambda *_: pytest.fail("the scenario is validated again"))
    result = sim.run(scenario, out=tmp_path / "run")
    assert result.manifest.scenario is scenario
    assert len(parsed) <= 2, "the first and the final one"


def test_a_pickled_run_directory_contains_no_manifest(local: RunDirectory) -> None:
    assert local.manifest().parts == []
    assert b"scenario" not in pickle.dumps(local)
    assert pickle.loads(pickle.dumps(local)).manifest() == local.manifest()


def test_the_scenario_needs_neither_input_files_nor_custom_code() -> None:
    scenario = {
        "users": {"mobility": {"kind": "replay", "file": "nowhere.csv"}},
        "lppms": [{"name": "own", "belief": {"kind": "fixed_profile"}, "design": {"kind": "no_such_module:Design"}}],
    }
    recorded = a_manifest(scenario=scenario).scenario
    assert recorded.files() == ["nowhere.csv"]
    assert recorded.own_components() == ["no_such_module:Design"]


def test_an_invalid_scenario_is_reported_and_the_rest_can_be_read() -> None:
    """The scenario may need another version, or a package that is not installed."""
    content = manifest_content(scenario={"name": HOSTILE[0]}, parts=["a"])
    manifest = RunManifest.of(content, place="run/manifest.json")
    assert manifest.parts == ["a"]
    with pytest.raises(ScenarioError, match=r"^run/manifest\.json:1:1: name: "):
        _ = manifest.scenario


def test_a_manifest_of_another_schema_is_compared_but_not_read(local: RunDirectory) -> None:
    content = {"schema_version": 2, "scenario": {"name": "old", "seed": 1}, "lppm_sim": "0.1"}
    local.file("manifest.json").write_bytes(encode(content))
    manifest = local.any_manifest()
    assert isinstance(manifest, OtherSchema)
    assert manifest.content == content
    identity = manifest.identity
    assert (identity.schema_version, identity.files, identity.kernels) == (2, {}, "plain")
    with raises_code(RequestError, "other-schema-version") as error:
        local.manifest()
    assert "must be 3 or 4 or 5, got 2" in str(error.value)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list that records every parsed manifest."""
    parsed: list[bytes] = []

    def count(raw: bytes, place: str) -> RunManifest | OtherSchema:
        parsed.append(raw)
        return decode(raw, place)

    monkeypatch.setattr("sim.storage.manifest_file.decode", count)
    return parsed


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("lppms.*.design", [{"epsilon_per_km": 1.0}, {"epsilon_per_km": 2.0, "remap": False}]),
        ("lppms.PEB-Exp.belief", [{"fading": 0.5}, {"fading": 0.7}]),
        ("lppms.PEB-Exp.design.quality_budget_km", [{"realised": 0.5}, {"realised": 0.6, "at": 0.9}]),
    ],
)
def test_swept_mappings_without_a_kind_are_complete_in_a_manifest(
    path: str, values: list[dict[str, object]], recorded: bool, make_scenario: MakeScenario
) -> None:
    """The recorded scenario omits short names, which give swept parts their kind."""
    scenario = make_scenario(lppms=["PEB-Exp", "SP-Exp"], sweep={path: values})
    content = dict(manifest_content()) | {"scenario": json.loads(scenario.canonical())}
    if recorded:  # other manifests are those of earlier versions
        content["short_names"] = {lppm.name: lppm.kind for lppm in scenario.lppms}
    read = RunManifest.of(content).scenario
    assert [point.scenario.canonical() for point in points(read)] == [
        point.scenario.canonical() for point in points(scenario)
    ]
    assert read.canonical() == scenario.canonical()


def test_renamed_mechanisms_record_their_short_name(make_scenario: MakeScenario, tmp_path: Path) -> None:
    lppms = [{"kind": "PEB-LH", "name": "own"}]
    sweep = {"lppms.own.design": [{"reveal_probability": 0.3}, {"reveal_probability": 0.6}]}
    scenario = make_scenario(lppms=lppms, sweep=sweep, replications=1)
    sim.run(scenario, out=tmp_path / "run", figures=False)
    read = sim.Result.open(tmp_path / "run").manifest
    assert read.short_names == {"own": "PEB-LH"}
    assert [one.canonical() for one in (point.scenario for point in points(read.scenario))] == [
        one.canonical() for one in (point.scenario for point in points(scenario))
    ]
