"""The manifest of a run as bytes: written with a checksum; read with checksum, keys and types verified."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sim.storage.event_schema import SCHEMA_VERSION

FREE_KEYS = ("name", "description", "replications")
"""Keys of a scenario that do not decide what is in a part."""

CHECKSUM = "checksum"
_PREFIX = "sha256:"

_Kind = type | tuple[type, ...]

_REQUIRED: dict[str, _Kind] = {
    "scenario": dict,
    "folder": str,
    "digest": str,
    "seed": int,
    "files": dict,
    "lppm_sim": str,
    "versions": dict,
    "kernels": str,
    "worlds": list,
    "output_spaces": dict,
    "finished": bool,
    "parts": list,
    "repetitions": list,
}
_OPTIONAL: dict[str, _Kind] = {"notes": list, "failures": list, "tables": dict}
_OF_SCENARIO: dict[str, _Kind] = {
    "name": str,
    "lppms": list,
    "attacks": list,
    "record": dict,
    "replications": (int, dict),
    "world": dict,
}
_OF_WORLD: dict[str, _Kind] = {"points": list, "grid": dict, "traces": dict}
_OF_REPETITION: dict[str, _Kind] = {"point": int, "lppm": str, "replications": int, "exact": bool}
_OF_NOTE: dict[str, _Kind] = {"point": int, "lppm": str}
_JSON_NAMES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    bool: "true or false",
}


class DamagedManifest(ValueError):
    """A manifest that cannot be used; the message says why."""


def parts_digest(manifest: Mapping[str, Any]) -> str:
    """Return a digest of all that decides the content of a run's parts."""
    scenario = {key: value for key, value in manifest["scenario"].items() if key not in FREE_KEYS}
    kernel = manifest["kernels"].split()[0]
    decides = [manifest["schema_version"], scenario, manifest["files"], kernel, manifest["lppm_sim"]]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def encode(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a manifest, with its checksum; NaN and infinity are refused."""
    full = {key: value for key, value in content.items() if key != CHECKSUM}
    try:
        full[CHECKSUM] = _checksum(full)
        text = json.dumps(full, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"the manifest must hold finite numbers only: {error}") from error
    return f"{text}\n".encode()


def decode(raw: bytes) -> dict[str, Any]:
    """Return a manifest without its checksum, or raise a DamagedManifest.

    One of another schema version is returned as it is. One of an earlier version of lppm-sim has no checksum.
    """
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DamagedManifest(f"it is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise DamagedManifest(f"it must hold an object, got {type(content).__name__}")
    try:
        _verify(raw)
    except DamagedManifest:
        raise
    except ValueError as error:  # NaN, or half a character
        raise DamagedManifest(str(error)) from error
    content.pop(CHECKSUM, None)
    return content


@lru_cache(maxsize=4)
def _verify(raw: bytes) -> None:
    """Verify checksum, keys and types: once, since a manifest is read many times."""
    content: dict[str, Any] = json.loads(raw)
    checksum = content.pop(CHECKSUM, None)
    # A flipped bit in the key must not make it a manifest of an earlier version.
    if (checksum is not None or f'"{_PREFIX}'.encode() in raw) and checksum != _checksum(content):
        raise DamagedManifest("its checksum does not match: it was changed after the run wrote it")
    version = content.get("schema_version")
    if type(version) is not int:
        raise DamagedManifest(f"`schema_version` must be a whole number, got {version!r}")
    if version == SCHEMA_VERSION:
        _validate(content)


def _validate(content: Mapping[str, Any]) -> None:
    """Hold a manifest to what its readers rely on."""
    _require(content, _REQUIRED)
    _require(content, {key: kind for key, kind in _OPTIONAL.items() if key in content})
    _require(content["scenario"], _OF_SCENARIO, "scenario.")
    for key, needed in {"worlds": _OF_WORLD, "repetitions": _OF_REPETITION, "notes": _OF_NOTE, "failures": {}}.items():
        _require_each(content.get(key, []), needed, key)
    for key in ("lppms", "attacks"):
        _require_each(content["scenario"][key], {}, f"scenario.{key}")
    if strange := [part for part in content["parts"] if not isinstance(part, str)]:
        raise DamagedManifest(f"`parts` must hold texts, got {strange[0]!r}")


def _require_each(entries: Sequence[Any], needed: Mapping[str, _Kind], path: str) -> None:
    """Require objects, with these keys."""
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise DamagedManifest(f"`{path}.{place}` must be an object, got {type(entry).__name__}")
        _require(entry, needed, f"{path}.{place}.")


def _require(content: Mapping[str, Any], needed: Mapping[str, _Kind], above: str = "") -> None:
    """Require keys and types of their values."""
    for key, kind in needed.items():
        if key not in content:
            raise DamagedManifest(f"`{above}{key}` is missing")
        allowed = kind if isinstance(kind, tuple) else (kind,)
        if type(content[key]) not in allowed:
            expected = " or ".join(_JSON_NAMES[one] for one in allowed)
            raise DamagedManifest(f"`{above}{key}` must be {expected}, got {type(content[key]).__name__}")


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return f"{_PREFIX}{hashlib.sha256(text.encode()).hexdigest()}"
