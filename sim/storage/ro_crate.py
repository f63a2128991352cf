"""RO-Crate 1.1 metadata of a run: `ro-crate-metadata.json` describes the files of the run directory.

The content follows from the manifest and the files. Only `datePublished`, which the standard requires, is the day on
which the file was first written (or that of `SOURCE_DATE_EPOCH`); no other file of a run contains a date. Licence, date
and everything else that was added by hand is preserved when the file is written again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from sim.storage.backends import storage_at
from sim.storage.backends.protocol import Storage
from sim.storage.manifest import RunManifest
from sim.storage.manifest_file import MANIFEST
from sim.storage.run_directory import RunDirectory
from sim.storage.run_file import RunFile

METADATA = "ro-crate-metadata.json"
_CONTEXT = ["https://w3id.org/ro/crate/1.1/context", {"sha256": "https://schema.org/sha256"}]
_SOFTWARE = "https://github.com/lppm-sim/lppm-sim"
_UNLICENSED = "#licence-not-specified"
_INPUT = "#input-"

_DESCRIPTIONS = {
    "manifest.json": "Scenario, seed, versions, world and output spaces: sufficient to repeat the run",
    "points.csv": "Sweep points and their values",
    "summary.csv": "Mean quality loss and adversary error with confidence intervals",
    "metrics.csv": "Further metrics with confidence intervals",
    "hindsight.csv": "Error of revised estimates of past queries",
    "tournament.csv": "Mechanisms against attacks at equal quality loss",
    "adaptation.csv": "Efficiency before and after a behaviour shift",
    "answers.csv": "Places located, homes known, users singled out and linked",
    "home_exposure.csv": "Share of users whose home is known, by day",
    "report.html": "Report: conclusion, tables, figures and provenance",
}
_FOLDERS = {
    "events": "Part of the event log: one row per query and attack",
    "snapshots": "Learned profiles at chosen queries",
    "figures": "Figure",
    "calibration": "Simulated strengths and their losses",
    "training": "Counts of a training set",
}
_RESULTS = ("figures",)
"""Folders whose files commands other than `run` replace."""
_FORMATS = {
    "csv": "text/csv",
    "html": "text/html",
    "json": "application/json",
    "npz": "application/zip",
    "parquet": "application/vnd.apache.parquet",
    "pdf": "application/pdf",
    "png": "image/png",
    "svg": "image/svg+xml",
}


def write_crate(run: RunDirectory) -> None:
    """Write the metadata of all files of a run."""
    _write(run, {})


def refresh_crate(run: RunDirectory) -> None:
    """Update the metadata after tables or figures have changed, if the run has metadata; parts are not read again."""
    if run.has(METADATA):
        _write(run, _entities(_previous(run)))


def _write(run: RunDirectory, known: Mapping[str, dict[str, Any]]) -> None:
    previous = _entities(_previous(run))
    storage = storage_at(run.place)
    files = [
        known[name] if name in known and _is_immutable(name) else _file(storage, name, description)
        for name, description in _files(storage)
    ]
    graph = _merged(_graph(run.manifest(), files), previous)
    crate = {"@context": _CONTEXT, "@graph": graph}
    run.file(METADATA).write_bytes((json.dumps(crate, indent=1, ensure_ascii=False) + "\n").encode())


def _previous(run: RunDirectory) -> Any:
    """Return the existing metadata; None if there are none, or if they are not JSON."""
    try:
        return json.loads(run.file(METADATA).read_bytes()) if run.has(METADATA) else None
    except ValueError:
        return None


def _entities(crate: Any) -> dict[str, dict[str, Any]]:
    """Return the entities of metadata by id; malformed ones are omitted."""
    graph = crate.get("@graph") if isinstance(crate, dict) else None
    entities = graph if isinstance(graph, list) else []
    return {one["@id"]: one for one in entities if isinstance(one, dict) and isinstance(one.get("@id"), str)}


def _files(storage: Storage) -> Iterator[tuple[str, str]]:
    """Yield the files of a run that are its content, with descriptions, in a fixed order."""
    existing = set(storage.names())
    yield from ((name, description) for name, description in _DESCRIPTIONS.items() if name in existing)
    for folder, description in _FOLDERS.items():
        for name in storage.names(folder):
            if not name.startswith(".") and name.rpartition(".")[2] in _FORMATS:
                yield f"{folder}/{name}", description


def _is_immutable(name: str) -> bool:
    folder, _, _ = name.rpartition("/")
    return folder != "" and folder not in _RESULTS


def _file(storage: Storage, name: str, description: str) -> dict[str, Any]:
    size, digest = RunFile(storage, name).size_and_sha256()
    return {
        "@id": name,
        "@type": "File",
        "name": name,
        "description": description,
        "encodingFormat": _FORMATS[name.rpartition(".")[2]],
        "contentSize": str(size),
        "sha256": digest,
    }


def _graph(manifest: RunManifest, files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entities of the crate, the root first."""
    inputs = [
        {"@id": f"{_INPUT}{number}", "@type": "CreativeWork", "name": name, "sha256": digest}
        for number, (name, digest) in enumerate(sorted(manifest.files.items()), start=1)
    ]
    return [
        {
            "@id": METADATA,
            "@type": "CreativeWork",
            "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
            "about": {"@id": "./"},
        },
        _root(manifest, files),
        *files,
        {
            "@id": "#run",
            "@type": "CreateAction",
            "name": f"Simulation of the scenario {manifest.scenario_keys.name}",
            "instrument": {"@id": _SOFTWARE},
            "object": [{"@id": one["@id"]} for one in ({"@id": MANIFEST}, *inputs)],
            "result": {"@id": "./"},
        },
        *inputs,
        *_software(manifest),
        {
            "@id": _UNLICENSED,
            "@type": "CreativeWork",
            "name": "Licence not specified",
            "description": "Set `license` of the root data set; later commands preserve it.",
        },
    ]


def _root(manifest: RunManifest, files: list[dict[str, Any]]) -> dict[str, Any]:
    name = manifest.scenario_keys.name
    description = manifest.recorded_scenario.get("description")
    state = "" if manifest.finished else " The run is not finished."
    return {
        "@id": "./",
        "@type": "Dataset",
        "name": name,
        "description": (description or f"Run of the lppm-sim scenario {name}: event log, tables and figures.") + state,
        "datePublished": _today(),
        "license": {"@id": _UNLICENSED},
        "identifier": manifest.digest,
        "citation": {"@id": "#oya-2019"},
        "mentions": {"@id": "#run"},
        "hasPart": [{"@id": file["@id"]} for file in files],
    }


def _software(manifest: RunManifest) -> list[dict[str, Any]]:
    """Return the entities of the software and of the paper that it implements, as in CITATION.cff."""
    authors = {"simon-oya": "Simon Oya", "carmela-troncoso": "Carmela Troncoso"}
    authors["fernando-perez-gonzalez"] = "Fernando Pérez-González"
    return [
        {
            "@id": _SOFTWARE,
            "@type": "SoftwareApplication",
            "name": "lppm-sim",
            "url": _SOFTWARE,
            "version": manifest.lppm_sim,
            "softwareRequirements": [f"{name} {version}" for name, version in sorted(manifest.versions.items())],
            "citation": {"@id": "#oya-2019"},
        },
        {
            "@id": "#oya-2019",
            "@type": "ScholarlyArticle",
            "name": "Rethinking Location Privacy for Unknown Mobility Behaviors",
            "author": [{"@id": f"#{key}"} for key in authors],
            "datePublished": "2019",
            "publisher": "2019 IEEE European Symposium on Security and Privacy (EuroS&P)",
        },
        *({"@id": f"#{key}", "@type": "Person", "name": author} for key, author in authors.items()),
    ]


def _today() -> str:
    """Return the day in UTC, or that of `SOURCE_DATE_EPOCH` for reproducible files."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdecimal() else datetime.now(UTC)
    return now.date().isoformat()


def _merged(graph: list[dict[str, Any]], previous: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the graph with the additions of the previous one.

    Preserved are entities, parts and keys that are not generated, and licence and date of the root.
    """
    own = {one["@id"] for one in graph}
    root = next(one for one in graph if one["@id"] == "./")
    before = previous.get("./", {})
    root |= {key: value for key, value in before.items() if key not in root or key in ("license", "datePublished")}
    root["hasPart"] += [part for part in _listed(before.get("hasPart")) if not _is_generated(part["@id"])]
    added = [one for name, one in previous.items() if name not in own and not _is_generated(name)]
    unused = root["license"] != {"@id": _UNLICENSED}
    return [one for one in (*graph, *added) if one["@id"] != _UNLICENSED or not unused]


def _listed(parts: Any) -> list[dict[str, str]]:
    """Return the references of a property; malformed ones are omitted."""
    listed = parts if isinstance(parts, list) else [parts]
    return [part for part in listed if isinstance(part, dict) and isinstance(part.get("@id"), str)]


def _is_generated(name: str) -> bool:
    """Return whether an entity is written by this module if it applies: a file of the run, or an input."""
    folder, _, _ = name.partition("/")
    return name in _DESCRIPTIONS or folder in _FOLDERS or name.startswith(_INPUT)
