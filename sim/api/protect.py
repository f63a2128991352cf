"""Protect a live stream from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from sim.api.mechanism_setup import lppm_mapping, setup_of, trained_on, world_mapping
from sim.components.files import Place, data_folder
from sim.components.permission import AllowCode, CodeAccess
from sim.errors import InputError
from sim.mobility.statistics import Statistics
from sim.protection import journal
from sim.protection.mismatch import Difference, StateMismatch, differences
from sim.protection.protector import Protector
from sim.scenario.load import Settings
from sim.scenario.lppms import LPPMSpec

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
        "lppm": None if lppm is None else lppm_mapping(lppm),
        "world": None if world is None else world_mapping(world),
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
    setup = setup_of(given, settings, ORIGIN)
    return Protector.create(path, setup, trained_on(training, setup, place), place)


def _continued(path: Path, given: Mapping[str, Any], settings: Settings, training: Any, place: Place) -> Protector:
    """Continue a state; raise an error if it does not agree with the arguments."""
    protector = Protector.open(path, place)
    try:
        stored = protector.setup.canonical()
        requested = setup_of(stored | dict(given), settings, ORIGIN).canonical()
        differing = differences(stored, requested)
        if training is not None and not protector.is_trained_on(trained_on(training, protector.setup, place)):
            differing.append(Difference("training", "the training data differ"))
        if differing:
            raise StateMismatch(path, differing, [*given, *(["settings"] if settings else [])])
    except BaseException:
        protector.close()
        raise
    return protector
