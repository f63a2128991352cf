"""Export a fixed mechanism for other languages, from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from sim.api.mechanism_setup import lppm_mapping, setup_of, trained_on, world_mapping
from sim.components.files import Place, data_folder
from sim.components.permission import AllowCode, CodeAccess
from sim.errors import input_errors
from sim.lppm.mechanism import Mechanism
from sim.mobility.statistics import Statistics
from sim.protection.export import exported
from sim.scenario.load import Settings
from sim.scenario.lppms import LPPMSpec

ORIGIN = "export_mechanism"


def export_mechanism(
    lppm: str | Mapping[str, Any] | LPPMSpec,
    *,
    world: str | Mapping[str, Any],
    training: Statistics | ArrayLike | str | Path | None = None,
    settings: Settings = (),
    roads_seed: int | None = None,
    folder: str | Path = ".",
    data: str | Path | None = None,
    allow_code: AllowCode | None = None,
) -> dict[str, Any]:
    """Return a mechanism whose channel never changes as JSON data for other languages.

    Parameters
    ----------
    lppm
        Mechanism with a fixed belief: a short name, such as ``"SP-Exp"``, or a mapping as under `lppms` in a scenario.
    world
        World as in a scenario file, such as ``{"grid": {"kind": "region", ...}}``; the grid must have latitudes and
        longitudes.
    training
        What the mechanism is trained on: `Statistics`, a histogram of shape (n_cells,), or a trace file. Default: no
        data, a uniform profile.
    settings
        Values of the mechanism to change by dotted path, as in `sim.protect`.
    roads_seed
        Seed of random roads, the seed of a scenario.
    folder, data
        Folder that file names are relative to, and folder of the files named ``data:NAME``.
    allow_code
        Permission to import custom components, as in `sim.load`.

    Returns
    -------
    dict
        Geometry, prior, channel table with integer weights, error bounds and test vectors; write it with `json.dump`.

    Raises
    ------
    UserError
        If the channel changes, has too many outputs, or its table is too large.

    Examples
    --------
    >>> import sim
    >>> grid = {"kind": "region", "rows": 2, "cols": 3, "south": 0.0, "north": 0.02, "west": 0.0, "east": 0.03}
    >>> data = sim.export_mechanism("SP-Exp", world={"grid": grid})
    >>> data["table"]["kind"], data["error"]["largest_difference"] < data["error"]["bound"]
    ('product', True)
    """
    given: dict[str, Any] = {"lppm": lppm_mapping(lppm), "world": world_mapping(world)}
    if roads_seed is not None:
        given["roads_seed"] = roads_seed
    setup = setup_of(given, settings, ORIGIN)
    code = CodeAccess(beside=Path(folder)).granted(allow_code)
    place = Place(Path(folder), data_folder(None if data is None else Path(data)), code)
    setup.allow_code(place)
    built = setup.build_world(place)
    belief = setup.build_belief(built, trained_on(training, setup, place))
    mechanism = Mechanism(belief=belief, design=setup.build_design(built))
    with input_errors("export_mechanism"):
        return exported(mechanism, built, setup.canonical()["lppm"])
