"""The manifest: typed, verified, and parsed once."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from sim.storage.manifest import DamagedManifest, RunManifest
from sim.storage.manifest_file import decode, encode
from sim.storage.run_directory import RunDirectory
from tests.storage.helpers import flips
from tests.support import a_manifest, manifest_content


def test_manifest(run: RunDirectory) -> None:
    content = manifest_content(b=[1, 2.5], a="é")
    path = run.write_manifest(RunManifest.of(content))
    assert run.manifest().content == RunDirectory(run.place).manifest().content == content
    assert path.read_text().startswith('{\n  "a": "é",\n  "b"')
    before = path.read_bytes()
    with pytest.raises(ValueError, match="finite"):
        run.write_manifest(a_manifest(a=float("nan")))
    assert path.read_bytes() == before


def test_every_flipped_bit_of_a_manifest_is_found_or_changes_nothing() -> None:
    world = {"points": [0], "grid": {"x": 1.5}, "traces": {}}
    content = manifest_content(scenario={"name": "é"}, seed=3, worlds=[world])
    encoded = encode(content)
    assert decode(encoded).content == content
    for changed in flips(encoded, bits=tuple(range(8))):
        with suppress(DamagedManifest):
            assert decode(changed).content == content


def test_a_manifest_without_checksum_is_held_to_keys_and_types() -> None:
    """Those of earlier versions have none."""
    content = manifest_content(notes=[{"point": 0, "lppm": "SP"}], failures=[])
    assert decode(json.dumps(content).encode()).content == content
    for key in manifest_content().keys() - {"schema_version"}:
        without = {name: value for name, value in content.items() if name != key}
        with pytest.raises(DamagedManifest, match=f"`{key}` is missing"):
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
def test_what_is_no_manifest_is_named(raw: bytes) -> None:
    with pytest.raises(DamagedManifest):
        decode(raw)
