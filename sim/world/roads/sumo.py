"""Export of roads as the plain XML files of SUMO, from which its `netconvert` builds a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.world.grid import Grid
from sim.world.locations import EARTH_RADIUS_KM

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

_M_PER_KM = 1000.0
_KMH_PER_M_S = 3.6


def sumo_nodes(roads: Roads, grid: Grid) -> str:
    """Return the file of nodes: positions in m from the south-west corner of the grid.

    For a grid in degrees the file states the projection of the grid, an equirectangular one, so that SUMO writes
    floating-car data in degrees (`--fcd-output.geo`).
    """
    nodes = (
        f'    <node id="{number}" x="{x * _M_PER_KM:.3f}" y="{y * _M_PER_KM:.3f}"/>'
        for number, (x, y) in enumerate(zip(roads.x_km.tolist(), roads.y_km.tolist(), strict=True))
    )
    width_m, height_m = grid.width_km * _M_PER_KM, grid.height_km * _M_PER_KM
    original = "10000000000.00,10000000000.00,-10000000000.00,-10000000000.00"  # SUMO's empty box
    if grid.south is not None:
        original = f"{grid.west:.9f},{grid.south:.9f},{grid.east:.9f},{grid.north:.9f}"
    location = (
        f'    <location netOffset="0.00,0.00" convBoundary="0.00,0.00,{width_m:.2f},{height_m:.2f}" '
        f'origBoundary="{original}" projParameter="{projection(grid)}"/>'
    )
    return "\n".join(["<nodes>", location, *nodes, "</nodes>", ""])


def projection(grid: Grid) -> str:
    """Return the PROJ string of a grid in degrees, "!" for another grid."""
    if grid.south is None or grid.north is None:
        return "!"
    middle = (grid.south + grid.north) / 2.0
    return (
        f"+proj=eqc +lat_ts={middle!r} +lat_0={grid.south!r} +lon_0={grid.west!r} +R={EARTH_RADIUS_KM * _M_PER_KM:.1f} "
        "+units=m +no_defs"
    )


def sumo_edges(roads: Roads) -> str:
    """Return the file of edges, with lengths in m and speeds in m/s; edge u-v leads from node u to node v."""
    edges = (
        f'    <edge id="{u}-{v}" from="{u}" to="{v}" numLanes="1" speed="{data["speed_kmh"] / _KMH_PER_M_S:.4f}" '
        f'length="{max(data["length_km"] * _M_PER_KM, 0.1):.3f}"/>'
        for u, v, data in roads.graph.edges(data=True)
    )
    return "\n".join(["<edges>", *edges, "</edges>", ""])
