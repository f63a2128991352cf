"""Build a world in Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sim.api.parameters import mapping_of, plain, validated
from sim.components.files import Place, data_folder
from sim.errors import input_errors
from sim.scenario.world import WorldSpec
from sim.world import World
from sim.world.parameters import (
    DistanceParameters,
    GridParameters,
    LocationParameters,
    RoadsParameters,
    ServiceParameters,
)


def make_world(
    grid: str | Mapping[str, Any] | GridParameters | None = None,
    *,
    locations: str | Mapping[str, Any] | LocationParameters | None = None,
    roads: str | Mapping[str, Any] | RoadsParameters | None = None,
    privacy_distance: str | Mapping[str, Any] | DistanceParameters | None = None,
    quality_distance: str | Mapping[str, Any] | DistanceParameters | None = None,
    services: Mapping[str, Mapping[str, Any] | ServiceParameters] | None = None,
    seed: int = 1,
    folder: str | Path = ".",
    data: str | Path | None = None,
    **grid_parameters: Any,
) -> World:
    """Build a world: locations, roads, and the distances between locations.

    Each component is a kind (``sim.list_components("grid")`` lists them), a mapping with a ``kind``, or a parameter
    object, as under `world` in a scenario file.

    Parameters
    ----------
    grid
        Grid of cells. Default: the San Francisco region of Oya et al. 2019.
    locations
        Locations that are not the cells of a grid, such as points or areas; they replace `grid`.
    roads
        Road network; commuters, taxis and road distances need one.
    privacy_distance, quality_distance
        Distances d_P (adversary error) and d_Q (quality loss), in km. Default: Manhattan on a grid, Euclidean
        between other locations.
    services
        Services that users ask about their location, by name: ``world.services["cafes"].matrix()`` has their losses.
    seed
        Seed of random roads. A scenario with the same `seed` has the same roads.
    folder, data
        Folder that file names are relative to, and folder of the files named ``data:NAME``.
    **grid_parameters
        Parameters of the grid.

    Returns
    -------
    World
        ``world.locations.cell_of(lat, lon)`` and ``cell_of_km(x_km, y_km)`` return the cells of positions;
        ``world.quality_distance.matrix_km`` holds the distances between cells.

    Raises
    ------
    ScenarioError
        If parameters are invalid; lists all faults.

    Examples
    --------
    >>> import sim
    >>> world = sim.make_world("rectangle", rows=2, cols=3, width_km=3, height_km=2)
    >>> world.locations.cell_of_km(0.4, 1.5).item()
    3
    >>> world.quality_distance.matrix_km[0, 5].item()
    3.0
    """
    parts: dict[str, Any] = {}
    if locations is None or grid is not None or grid_parameters:
        own = {key: plain(value) for key, value in grid_parameters.items()}
        parts["grid"] = mapping_of("san_francisco" if grid is None else grid) | own
    given = {
        "locations": locations,
        "roads": roads,
        "privacy_distance": privacy_distance,
        "quality_distance": quality_distance,
        "services": services,
    }
    parts |= {name: plain(part) for name, part in given.items() if part is not None}
    spec = validated(WorldSpec, parts, "make_world")
    with input_errors("make_world"):
        return spec.build(seed, Place(Path(folder), data_folder(None if data is None else Path(data))))
