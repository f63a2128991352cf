"""Load a scenario from its file, or from the manifest of a run."""

from __future__ import annotations

import shlex
from pathlib import Path

from sim.components.permission import AllowCode, CodeAccess
from sim.scenario.examples import example_path
from sim.scenario.load import Settings, load_file, load_source
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import Fault, ScenarioError
from sim.scenario.reading.source import Source
from sim.storage.manifest import DamagedManifest
from sim.storage.manifest_file import MANIFEST, decode


def load(
    path: str | Path,
    *,
    settings: Settings = (),
    data: str | Path | None = None,
    allow_code: AllowCode | None = None,
) -> Scenario:
    """Read and validate a scenario file, with some values changed: ``settings={"replications": 10}``.

    A path leads to the value, as in a sweep; strings such as ``replications=10`` are accepted as well. Set a swept
    value by ``sweep.PATH`` and a list of values, where ``PATH`` is the complete swept path. ``example:NAME`` loads a
    shipped scenario, the ``manifest.json`` of a run the scenario of that run. `data` is the folder of ``data:NAME``
    files. `allow_code` permits importing custom components (``module:Class``) when the scenario runs: True, or the
    only folders to import from; by default the environment variable ``LPPM_SIM_ALLOW_CODE`` decides. Loading imports
    no custom component. Raises `ScenarioError` with all faults.
    """
    path = example_path(path) or Path(path)
    if path.name != MANIFEST:
        return load_file(path, settings=settings, data=data, allow_code=allow_code)
    source, folder = _recorded(path)
    return load_source(source, folder, CodeAccess().granted(allow_code), settings=settings, data=data)


def _recorded(path: Path) -> tuple[Source, Path]:
    """Return the scenario of a run, and the folder that its file names are relative to."""
    try:
        manifest = decode(path.read_bytes(), str(path)).content
        return Source(name=str(path), data=dict(manifest["scenario"])), Path(manifest["folder"])
    except OSError as error:
        raise ScenarioError([Fault(str(path), "", f"the file cannot be read: {error.strerror}")]) from None
    except DamagedManifest as error:
        repaired = f"`lppm-sim run SCENARIO -o {shlex.quote(str(path.parent))}` rebuilds it"
        message = f"this is no manifest of a run, or a damaged one: {error}; with the scenario file, {repaired}"
        raise ScenarioError([Fault(str(path), "", message)]) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ScenarioError([Fault(str(path), "", f"this is no manifest of a run: {error!r}")]) from None
