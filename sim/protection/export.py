"""A fixed mechanism as JSON for other languages: geometry, prior, channel table, error bounds and test vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from sim.errors import InputError
from sim.interfaces import Channel, ChannelCapabilities, Generator
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.channels.product import ProductChannel
from sim.lppm.channels.remapped import RemappedChannel
from sim.lppm.channels.sampling import draw
from sim.lppm.epsilon import exact_epsilon_per_km
from sim.lppm.mechanism import Mechanism
from sim.lppm.outputs import Cells, output_space
from sim.protection.places import reported_places
from sim.protection.setup import versions
from sim.protection.table import BITS, TOTAL, Table, table_of
from sim.protection.user import may_change
from sim.rng import stream
from sim.world import World
from sim.world.grid import BORDER_KM, Grid

FORMAT = "lppm-sim mechanism"
VERSION = 1
_DRAWS, _EDGES, _POSITIONS = 300, 100, 200
_EPSILON_CELLS = 400
_MOST_OUTPUTS = 100_000
_RULE = (
    "cumulative weights are integers with the sum 2^bits: a uniform integer u in [0, 2^bits) selects the first output "
    "whose cumulative weight exceeds u; a product takes one u for the row and another for the column of the grid, "
    "output = row * cols + column; then remap[output] replaces the output, if there is a remap"
)


def exported(mechanism: Mechanism, world: World, description: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mechanism whose channel never changes as JSON; raise `InputError` for any other."""
    _require_fixed(mechanism)
    grid = world.grid
    channel, prior = mechanism.channel(0), mechanism.belief.prior(0)
    if ChannelCapabilities.countless.of(channel) or channel.n_outputs > _MOST_OUTPUTS:
        raise InputError(
            "the mechanism has too many outputs to list: choose one that reports cells or regions",
            code="outputs-not-listed",
        )
    table = table_of(channel, grid.n_cells, grid.cols)
    return {
        "format": FORMAT,
        "version": VERSION,
        "mechanism": dict(description),
        "versions": versions(),
        "grid": _geometry(grid),
        "prior": prior.tolist(),
        "outputs": _outputs(mechanism, grid, channel.n_outputs),
        "bits": BITS,
        "rule": _RULE,
        "table": table.describe(),
        "error": _errors(table, channel, world),
        "vectors": _vectors(table, channel, grid),
    }


def _require_fixed(mechanism: Mechanism) -> None:
    if mechanism.hidden_state is not None:
        raise InputError(
            "the mechanism has a secret that persists between reports, which a table cannot hold: use `lppm-sim "
            "protect`",
            code="mechanism-has-secret",
        )
    if may_change(mechanism):
        raise InputError(
            "the channel of the mechanism changes with the time or with its reports, so it has no table: choose a "
            "fixed belief, such as SP-Exp, or a design that ignores the belief, or use `lppm-sim protect`",
            code="mechanism-learns",
        )


def _geometry(grid: Grid) -> dict[str, Any]:
    """Return what maps positions to cells and cells to their centres, bit by bit as `Grid.cell_of` does."""
    lat, _ = grid.to_degrees(0.0, grid.row_y_km)
    _, lon = grid.to_degrees(grid.col_x_km, 0.0)
    return {
        "rows": grid.rows,
        "cols": grid.cols,
        "south": grid.south,
        "west": grid.west,
        "km_per_degree": list(grid.km_per_degree),
        "row_edges_km": np.linspace(0.0, grid.height_km, grid.rows + 1).tolist(),
        "col_edges_km": np.linspace(0.0, grid.width_km, grid.cols + 1).tolist(),
        "border_km": BORDER_KM,
        "row_lat": np.round(lat, 7).tolist(),
        "col_lon": np.round(lon, 7).tolist(),
    }


def _outputs(mechanism: Mechanism, grid: Grid, count: int) -> dict[str, Any]:
    """Return the meaning of the outputs; `places` has the place and the cells of each that is not a cell."""
    space = output_space(mechanism.design, grid.n_cells)
    places = None
    if not isinstance(space, Cells):
        places = [[*reported_places(output, space, grid)] for output in range(count)]
    return {"kind": space.kind, "nothing": space.nothing, "places": places}


def _errors(table: Table, channel: Channel, world: World) -> dict[str, Any]:
    """Return the difference between the table and the channel, and the epsilon of both on small grids."""
    n_cells, n_outputs = world.n_cells, channel.n_outputs
    largest, variation, raised = 0.0, 0.0, 0
    for cell in _spread(n_cells, 2_000):
        exact, stored = channel.row(cell), table.row(cell, n_outputs)
        largest = max(largest, float(np.abs(stored - exact).max()))
        variation = max(variation, float(np.abs(stored - exact).sum()) / 2)
        raised += int(((exact > 0) & (exact < 1 / TOTAL)).sum())
    errors: dict[str, Any] = {
        "bound": table.bound,
        "bound_of": "any probability before the remap",
        "largest_difference": largest,
        "largest_total_variation": variation,
        "probabilities_below_1_weight": raised,
    }
    if n_cells <= _EPSILON_CELLS:
        of_table = MatrixChannel(np.array([table.row(cell, n_outputs) for cell in range(n_cells)]))
        channels: dict[str, Channel] = {"simulator": channel, "table": of_table}
        for name, one in channels.items():
            epsilon = exact_epsilon_per_km(one, world.euclidean_distance)
            errors[f"epsilon_per_km_{name}"] = epsilon if np.isfinite(epsilon) else None
    return errors


def _vectors(table: Table, channel: Channel, grid: Grid) -> dict[str, Any]:
    """Return positions with their cells, draws with the simulator's outputs, and draws at the edges of the weights."""
    rng = stream(1, "protection.vectors")
    cells = rng.integers(grid.n_cells, size=_DRAWS).tolist()
    uniforms = rng.integers(TOTAL, size=(_DRAWS, table.draws)).tolist()
    draws = [
        [cell, numbers, output]
        for cell, numbers in zip(cells, uniforms, strict=True)
        # Floating-point sums may select the neighbour of an output within rounding of its edge.
        if (output := simulated(channel, cell, numbers)) == table.sample(cell, numbers)
    ]
    edges = []
    for cell in cells[:_EDGES]:
        rows = table.places(cell)
        ends = [row.cumulative[int(rng.integers(len(row.cumulative)))] for row in rows]
        for numbers in ([end - 1 for end in ends], [end % TOTAL for end in ends]):
            edges.append([cell, numbers, table.sample(cell, numbers)])
    return {"positions": _positions(grid, rng), "draws": draws, "edges": edges}


def _positions(grid: Grid, rng: Generator) -> list[list[float]]:
    """Return positions in and around the region, half of them at borders of cells, with their cells, -1 outside."""
    x_km = rng.uniform(-0.1, 1.1, _POSITIONS) * grid.width_km
    y_km = rng.uniform(-0.1, 1.1, _POSITIONS) * grid.height_km
    half = _POSITIONS // 2
    x_km[:half] = rng.integers(grid.cols + 1, size=half) * grid.width_km / grid.cols
    y_km[:half] = rng.integers(grid.rows + 1, size=half) * grid.height_km / grid.rows
    x_km[half], y_km[half] = -BORDER_KM / 2, grid.height_km / 2
    lat, lon = grid.to_degrees(x_km, y_km)
    return [list(row) for row in zip(lat.tolist(), lon.tolist(), grid.cell_of(lat, lon).tolist(), strict=True)]


class _Scripted:
    """A generator that returns given uniform numbers."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers: Iterator[int] = iter(numbers)

    def random(self) -> float:
        """Return the next number, in [0, 1)."""
        number: float = next(self._numbers) / TOTAL
        return number


def simulated(channel: Channel, cell: int, numbers: Sequence[int]) -> int:
    """Return the output that the simulator draws for uniform numbers.

    Channels that use them in another order are sampled by the cumulative sums of a row.
    """
    rng = cast("Generator", _Scripted(numbers))
    base = channel.base if isinstance(channel, RemappedChannel) else channel
    if isinstance(base, MatrixChannel | ProductChannel):
        return channel.sample(cell, rng)
    output = draw(base.row(cell).cumsum().tolist(), rng)
    return int(channel.table[output]) if isinstance(channel, RemappedChannel) else output


def _spread(count: int, most: int) -> list[int]:
    return sorted({number * count // min(count, most) for number in range(min(count, most))})
