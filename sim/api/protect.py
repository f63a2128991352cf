"""Protect a live stream from Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from sim.api.parameters import mapping_of, plain
from sim.api.statistics import make_statistics, read_traces, statistics_of
from sim.components.files import Place, data_folder
from sim.components.permission import AllowCode, CodeAccess
from sim.errors import InputError
from sim.mobility.statistics import Statistics
from sim.protection import journal
from sim.protection.protector import Protector
from sim.protection.setup import Setup
from sim.scenario.load import Settings
from sim.scenario.lppms import LPPMSpec
from sim.scenario.reading.python_source import PythonSource
from sim.scenario.reading.source import Source, parse_value
from sim.scenario.reading.validation import validate

ORIGIN = "protect"


def protect(
    lppm: str | Mapping[str, Any] | LPPMSpec | None = None,
    *,
    state: str | Path,
    world: str | Mapping[str, Any] | None = None,
    training: Statistics | ArrayLike | str | Path | None = None,
    settings: Settings = (),
    markov_restart: Literal["never", "daily"] | None = None,
    outside: Literal["refuse", "nearest"] | None = None,
    seed: int | None = None,
    roads_seed: int | None = None,
    folder: str | Path = ".",
    data: str | Path | None = None,
    allow_code: AllowCode | None = None,
) -> Protector:
    """Open the protection of a live stream, or continue it.

    Parameters
    ----------
    lppm
        Mechanism: a short name, such as ``"PEB-Exp"``, or a mapping as under `lppms` in a scenario file. Required for a
        new state.
    state
        File of the state, which only its owner can read. If it exists, the protection continues; then all other
        arguments are optional, and must agree with the state. The file holds all answers: never restore an old copy.
    world
        World as in a scenario file, such as ``{"grid": {"kind": "region", ...}}``. Required for a new state; the grid
        must have latitudes and longitudes.
    training
        What the mechanism is trained on: `Statistics` from `sim.make_statistics`, a histogram of shape (n_cells,), or a
        trace file, of which all rows count. Default: no data, a uniform profile.
    settings
        Values of the mechanism to change by dotted path: ``{"design.epsilon_per_km": 2.0}``, or strings such as
        ``["design.epsilon_per_km=2"]``.
    markov_restart
        ``"daily"`` or ``"never"`` (default), as in a scenario.
    outside
        Answer to a position outside the region: ``"refuse"`` (default), no report, or ``"nearest"``, the report of the
        nearest cell.
    seed
        Seed of the noise, for tests only: whoever knows it knows the noise. Default: entropy of the operating system.
    roads_seed
        Seed of random roads, the seed of a scenario.
    folder, data
        Folder that file names are relative to, and folder of the files named ``data:NAME``.
    allow_code
        Permission to import custom components, as in `sim.load`.

    Returns
    -------
    Protector
        ``report(time_s, lat, lon)`` answers a query.

    Raises
    ------
    ScenarioError
        If the mechanism or the world is invalid.
    UserError
        If the state is in use, damaged, or does not agree with the arguments.

    Examples
    --------
    >>> import sim, tempfile
    >>> state = tempfile.mkdtemp() + "/state"
    >>> with sim.protect("PEB-Exp", state=state, world="san_francisco") as protector:
    ...     first = protector.report(1_700_000_000, 37.7749, -122.4194)
    >>> first.status
    'reported'
    >>> with sim.protect(state=state) as protector:
    ...     protector.report(1_700_000_000, 37.7749, -122.4194).place == first.place
    True
    """
    code = CodeAccess(beside=Path(folder)).granted(allow_code)
    place = Place(Path(folder), data_folder(None if data is None else Path(data)), code)
    given: dict[str, Any] = {
        "lppm": None if lppm is None else mapping_of(lppm),
        "world": None if world is None else _world(world),
        "markov_restart": markov_restart,
        "outside": outside,
        "noise_seed": seed,
        "roads_seed": roads_seed,
    }
    given = {name: value for name, value in given.items() if value is not None}
    path = Path(state)
    if journal.exists(path):
        return _continued(path, given, settings, training, place)
    missing = [name for name in ("lppm", "world") if name not in given]
    if missing:
        raise InputError(
            f"the state {path} does not exist: to begin one, {' and '.join(missing)} must be given",
            code="missing-option",
        )
    setup = _setup(given, settings)
    return Protector.create(path, setup, _statistics(training, setup, place), place)


def _continued(path: Path, given: Mapping[str, Any], settings: Settings, training: Any, place: Place) -> Protector:
    """Continue a state; raise an error if it does not agree with the arguments."""
    protector = Protector.open(path, place)
    try:
        stored = protector.setup.canonical()
        asked = _setup(stored | dict(given), settings).canonical()
        differing = [name for name in stored if asked[name] != stored[name]]
        if training is not None and not protector.is_trained_on(_statistics(training, protector.setup, place)):
            differing.append("training")
        if differing:
            names = " and ".join(differing)
            raise InputError(
                f"{path} was begun with another {names}: omit {names} to continue it, or begin a new state under "
                "another name",
                code="state-mismatch",
            )
    except BaseException:
        protector.close()
        raise
    return protector


def _setup(given: Mapping[str, Any], settings: Settings) -> Setup:
    """Return the validated configuration with some values of the mechanism changed."""
    source: Source = PythonSource(name=ORIGIN, data=dict(given))
    for path, value, where in _changes(settings):
        source = source.overlay(("lppm", *path.split(".")), value, where)
    return validate(Setup, source)


def _changes(settings: Settings) -> Iterator[tuple[str, Any, str]]:
    """Yield path, value and origin of each setting."""
    if isinstance(settings, Mapping):
        yield from ((path, plain(value), f"settings {path}") for path, value in settings.items())
        return
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not all(name.isidentifier() for name in path.split(".")):
            raise InputError(
                f"--set: found {setting!r}, expected PATH=VALUE, such as design.epsilon_per_km=1",
                code="invalid-setting",
            )
        yield path, parse_value(text, f"--set {path}"), f"--set {path}"


def _world(world: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return a world given as a mapping, or as the kind of its grid."""
    return {"grid": world} if isinstance(world, str) else dict(plain(world))


def _statistics(training: Any, setup: Setup, place: Place) -> Statistics:
    world = setup.build_world(place)
    if not isinstance(training, str | Path):
        return statistics_of(training, world, "training")
    return make_statistics(read_traces(training, world=world), world=world, restart_s=setup.restart_s)
