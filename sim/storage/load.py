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
from sim.storage.manifest import DamagedManifest, scenario_data
from sim.storage.manifest_file import MANIFEST, decode


def load(
    path: str | Path,
    *,
    settings: Settings = (),
    data: str | Path | None = None,
    allow_code: AllowCode | None = None,
) -> Scenario:
    """Read and validate a scenario file.

    Loading imports no custom component.

    Parameters
    ----------
    path
        Scenario file, ``example:NAME`` of a shipped scenario, or the ``manifest.json`` of a run, which holds its
        scenario.
    settings
        Values to change, by dotted path as in a sweep: ``{"replications": 10}``, or strings such as
        ``["replications=10"]``. Set a swept value by ``sweep.PATH`` and a list of values, where ``PATH`` is the
        complete swept path.
    data
        Folder of the files named ``data:NAME``. Default: the environment variable ``LPPM_SIM_DATA``.
    allow_code
        Permission to import custom components (``module:Class``) when the scenario runs: True, or the only folders to
        import from. Default: the environment variable ``LPPM_SIM_ALLOW_CODE``.

    Returns
    -------
    Scenario
        Run it with `sim.run`.

    Raises
    ------
    ScenarioError
        If anything is invalid; `faults` lists every fault with file, line and column.

    Examples
    --------
    >>> load("example:sporadic_checkins", settings={"replications": 10}).replications
    10
    """
    path = example_path(path) or Path(path)
    if path.name != MANIFEST:
        return load_file(path, settings=settings, data=data, allow_code=allow_code)
    source, folder = _recorded(path)
    return load_source(source, folder, CodeAccess().granted(allow_code), settings=settings, data=data)


def _recorded(path: Path) -> tuple[Source, Path]:
    """Return the scenario of a run and the base folder of its file names."""
    try:
        manifest = decode(path.read_bytes(), str(path)).content
        return Source(name=str(path), data=scenario_data(manifest)), Path(manifest["folder"])
    except OSError as error:
        raise ScenarioError(
            [Fault(str(path), "", f"the file cannot be read: {error.strerror}", "file-error")]
        ) from None
    except DamagedManifest as error:
        command = f"`lppm-sim run SCENARIO -o {shlex.quote(str(path.parent))}`"
        message = f"not the manifest of a run, or damaged: {error}; {command} rebuilds it from the scenario file"
        raise ScenarioError([Fault(str(path), "", message, "damaged-manifest")]) from None
    except (ValueError, KeyError, TypeError) as error:
        message = f"not the manifest of a run: {error!r}"
        raise ScenarioError([Fault(str(path), "", message, "damaged-manifest")]) from None
