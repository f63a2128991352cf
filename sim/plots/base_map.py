"""Background of a map: the cells of a grid or other locations, roads, and the drawn section."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.ticker import MaxNLocator

from sim.analysis.map_frame import MapFrame
from sim.analysis.trajectories import UserTrace
from sim.interfaces import FloatArray
from sim.plots.style import COLOURS
from sim.storage.manifest import RecordedWorld
from sim.world import Grid, LocationSet

MOST_QUADS = 4_000
"""Number of cells above which a belief is drawn as an image instead of polygons in vector formats."""
_HEAT = LinearSegmentedColormap.from_list("heat", ["#ffffff", COLOURS[3]])
_ROAD, _CELL, _OUTLINE = "#c4c4c4", "#ececec", "#d8d8d8"
_LEAST_CELLS = 30
"""Smallest number of rows and columns of cells in a section of a map."""
_SMALLEST_CELL_PT = 2.0
"""Size of a cell, in points, below which no borders of cells are drawn."""
_DOT_PT, _DISC_PT = 1.0, 5.0
"""Diameter, in points, of a location without an outline, and of its belief."""
_LEAST_SHARE = 0.01
"""Smallest belief about a part of a road that is drawn, as a share of the largest."""

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class BaseMap:
    """Locations and roads, in km east and north of the south-west corner."""

    locations: Grid | LocationSet
    roads_km: FloatArray
    """Both ends of each road, shape (n_roads, 2, 2)."""
    east: Range
    north: Range
    """Ranges of the whole map."""
    cell_km: tuple[float, float]
    """Extent of a cell, or with which a location is drawn, from west to east and from south to north."""

    @classmethod
    def of(cls, world: RecordedWorld) -> BaseMap:
        """Read a world of a manifest."""
        locations, roads = world.restore_locations(), world.roads or {}
        ends = np.zeros((0, 2, 2))
        if roads:
            nodes = np.column_stack([roads["x_m"], roads["y_m"]]) / 1000
            ends = nodes[np.column_stack([roads["edge_from"], roads["edge_to"]])]
        if isinstance(locations, Grid):
            east, north = (0.0, locations.width_km), (0.0, locations.height_km)
            return cls(locations, ends, east, north, locations.cell_size_km)
        assert isinstance(locations, LocationSet)
        frame = MapFrame.of(locations)
        east = (frame.west_km, frame.west_km + frame.width_km)
        north = (frame.south_km, frame.south_km + frame.height_km)
        return cls(locations, ends, east, north, (frame.spacing_km, frame.spacing_km))

    def centres_km(self, cells: pd.Series[Any]) -> FloatArray:
        """Return the positions of locations, shape (n, 2)."""
        at = cells.to_numpy(np.int64)
        return np.column_stack([self.locations.x_km[at], self.locations.y_km[at]])

    def draw(self, panel: Axes, section: Section, panel_in: float) -> None:
        """Draw locations and roads of a section on a panel of this width in inches."""
        if isinstance(self.locations, Grid):
            if section.cell_pt(self, panel_in) >= _SMALLEST_CELL_PT:
                self._draw_lines(panel, self.locations)
        elif self.locations.outlines is None:
            x_km, y_km = self.locations.x_km, self.locations.y_km
            many = len(x_km) > MOST_QUADS
            panel.scatter(x_km, y_km, s=_DOT_PT**2, color=_ROAD, lw=0, zorder=0.5, rasterized=many)
        else:
            outlines = self.locations.outlines
            panel.add_collection(LineCollection(outlines, colors=_OUTLINE, linewidths=0.4, zorder=0.4))
        panel.add_collection(LineCollection(list(self.roads_km), colors=_ROAD, linewidths=0.4, zorder=0.6))
        panel.set_xlim(*section.east)
        panel.set_ylim(*section.north)
        slender = section.height_km / section.width_km
        panel.set_box_aspect(slender)
        for axis, size_in, size_km in (
            (panel.xaxis, panel_in, section.width_km),
            (panel.yaxis, panel_in * slender, section.height_km),
        ):
            axis.set_major_locator(MaxNLocator(nbins=4 if size_in > 0.8 else 2, integer=size_km > 3))

    def _draw_lines(self, panel: Axes, grid: Grid) -> None:
        x, y = np.linspace(0, grid.width_km, grid.cols + 1), np.linspace(0, grid.height_km, grid.rows + 1)
        lines = [[(at, 0.0), (at, grid.height_km)] for at in x] + [[(0.0, at), (grid.width_km, at)] for at in y]
        panel.add_collection(LineCollection(lines, colors=_CELL, linewidths=0.3, zorder=0.4))

    def draw_belief(self, panel: Axes, belief: FloatArray, most: float) -> Any:
        """Draw a belief with the colour scale shared by all panels."""
        norm = PowerNorm(0.5, 0, most)  # keeps small probabilities visible
        look: dict[str, Any] = {"cmap": _HEAT, "norm": norm, "zorder": 0.2, "rasterized": belief.size > MOST_QUADS}
        locations = self.locations
        if isinstance(locations, Grid):
            x = np.linspace(0, locations.width_km, locations.cols + 1)
            y = np.linspace(0, locations.height_km, locations.rows + 1)
            return panel.pcolormesh(x, y, belief.reshape(locations.shape), **look)
        order = np.argsort(belief)  # the most likely locations are drawn last
        values, outlines = belief[order], locations.outlines
        if outlines is None:
            x_km, y_km = locations.x_km[order], locations.y_km[order]
            return panel.scatter(x_km, y_km, s=_DISC_PT**2, c=values, lw=0, **look)
        drawn = [outlines[cell] for cell in order.tolist()]
        if all(np.array_equal(one[0], one[-1]) for one in outlines):
            return panel.add_collection(PolyCollection(drawn, array=values, lw=0, **look))
        first = int(np.searchsorted(values, _LEAST_SHARE * most))  # nearly white lines would hide the roads
        return panel.add_collection(
            LineCollection(drawn[first:], array=values[first:], linewidths=1.4, **look | {"zorder": 0.7})
        )


@dataclass(frozen=True, slots=True)
class Section:
    """Drawn section of a map: ranges in km east and north of the south-west corner."""

    east: Range
    north: Range

    @classmethod
    def around(cls, world: BaseMap, traces: Mapping[str, UserTrace]) -> Section:
        """Return the whole map or, if it has very many cells, the section with all cells of the traces."""
        if world.locations.n_cells <= MOST_QUADS:
            return cls(world.east, world.north)
        columns = [trace.queries[name].explode() for trace in traces.values() for name in ("cell", "shown", "estimate")]
        cells = pd.concat(columns).dropna().astype(int)
        ranges = []
        for at, (start, end), km in zip(
            world.centres_km(cells).T, (world.east, world.north), world.cell_km, strict=True
        ):
            half = max(0.6 * float(at.max() - at.min()), _LEAST_CELLS * km / 2)
            middle = float(np.clip((at.max() + at.min()) / 2, start + half, max(end - half, start + half)))
            ranges.append((max(middle - half, start), min(middle + half, end)))
        return cls(*ranges)

    @property
    def width_km(self) -> float:
        """Width in km."""
        return self.east[1] - self.east[0]

    @property
    def height_km(self) -> float:
        """Height in km."""
        return self.north[1] - self.north[0]

    def cell_pt(self, world: BaseMap, panel_in: float) -> float:
        """Return the width of a cell in points on a panel of this width in inches."""
        return panel_in * 72 / (self.width_km / world.cell_km[0])

    def note(self, world: BaseMap) -> str:
        """Return a note if the section is not the whole map."""
        whole = Section(world.east, world.north)
        if self == whole:
            return ""
        section, map_ = (f"{one.width_km:.3g} × {one.height_km:.3g} km" for one in (self, whole))
        return f"section of {section} of the map of {map_}"
