"""The file `manifest.json`: written with a checksum, verified when it is read.

Manifests of earlier versions of lppm-sim have no checksum; their keys and types are verified.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sim.storage.event_schema import READABLE_VERSIONS
from sim.storage.manifest import DamagedManifest, OtherSchema, RunManifest

MANIFEST = "manifest.json"
_CHECKSUM = "checksum"
_PREFIX = "sha256:"


def encode(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a manifest with its checksum; raises ValueError for NaN and infinity."""
    full = {key: value for key, value in content.items() if key != _CHECKSUM}
    try:
        full[_CHECKSUM] = _checksum(full)
        text = json.dumps(full, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"content must have finite numbers only: {error}") from error
    return f"{text}\n".encode()


def decode(raw: bytes, place: str = "manifest.json") -> RunManifest | OtherSchema:
    """Parse the bytes of a manifest and verify checksum, keys and types; raises DamagedManifest."""
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DamagedManifest(f"it is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise DamagedManifest(f"it must be a JSON object, got {type(content).__name__}")
    _verify_checksum(content.pop(_CHECKSUM, None), content, raw)
    version = content.get("schema_version")
    if type(version) is not int:
        raise DamagedManifest(f"`schema_version` must be a whole number, got {version!r}")
    return RunManifest.of(content, place=place) if version in READABLE_VERSIONS else OtherSchema(content)


class ManifestCache:
    """Cache of the last parsed manifest and its bytes: a run in progress replaces its manifest."""

    def __init__(self) -> None:
        self._parsed: tuple[bytes, RunManifest | OtherSchema] | None = None
        self._known: RunManifest | None = None

    def parsed(self, raw: bytes, place: str) -> RunManifest | OtherSchema:
        """Return the manifest with these bytes; it is parsed only if they differ from the last ones."""
        last = self._parsed
        if last is None or last[0] != raw:
            manifest = decode(raw, place)
            if isinstance(manifest, RunManifest):
                self._known = manifest if self._known is None else manifest.with_scenario_of(self._known)
                manifest = self._known
            self._parsed = last = raw, manifest
        return last[1]

    def adopt(self, manifest: RunManifest) -> None:
        """Use the scenario of a manifest that was written, which need not be validated again."""
        self._known = manifest

    def __reduce__(self) -> tuple[type[ManifestCache], tuple[()]]:
        """Pickle without the content: each process reads the file."""
        return ManifestCache, ()


def _verify_checksum(checksum: object, content: Mapping[str, Any], raw: bytes) -> None:
    # A flipped bit in the key must not turn it into a manifest of an earlier version.
    if checksum is None and f'"{_PREFIX}'.encode() not in raw:
        return
    try:
        expected = _checksum(content)
    except ValueError as error:  # NaN, or an unpaired surrogate
        raise DamagedManifest(str(error)) from error
    if checksum != expected:
        raise DamagedManifest("its checksum does not match: it was changed after the run wrote it")


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return f"{_PREFIX}{hashlib.sha256(text.encode()).hexdigest()}"
