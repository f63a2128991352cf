"""Output spaces: each output has one meaning, and the manifest describes it completely."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest

from sim.errors import InvalidValue
from sim.interfaces import OutputSpace
from sim.lppm.outputs import Cells, CellsOrNothing, Points, Regions, Sets, described, read
from sim.world.grid import Grid
from tests.support import raises_code

GRID = Grid.rectangle(rows=2, cols=3, width_km=3.0, height_km=2.0)


@pytest.mark.parametrize("size", range(1, 7))
def test_sets_are_numbered_from_zero_without_gaps(size: int) -> None:
    space = Sets(6, size)
    numbers = {space.output(cells): cells for cells in combinations(range(6), size)}
    assert sorted(numbers) == list(range(space.count))
    assert all(space.cells(output) == cells for output, cells in numbers.items())
    assert all(space.output(cells[::-1]) == output for output, cells in numbers.items())


def test_numbers_of_large_sets_are_exact_as_floats() -> None:
    space = Sets(250, 8)
    last = tuple(range(242, 250))
    assert space.output(last) == space.count - 1 == int(float(space.count - 1))
    assert space.cells(space.count - 1) == last
    with raises_code(InvalidValue, "too-many-outputs") as error:
        Sets(250, 9)
    assert "9 of 250 cells" in str(error.value)
    for size in (0, 7):
        with pytest.raises(ValueError, match=rf"^size\b.*\[1, 6\].*{size}$"):
            Sets(6, size)


def test_cells_and_map_position_of_outputs() -> None:
    cases: list[tuple[OutputSpace, int, tuple[int, ...], int]] = [
        (Cells(6), 5, (5,), 5),
        (CellsOrNothing(6), 5, (5,), 5),
        (CellsOrNothing(6), 6, (), -1),
        (Regions(((0, 1, 2), (4,)), (1, 4)), 0, (0, 1, 2), 1),
        (Sets(6, 2), 0, (0, 1), -1),
    ]
    for space, output, cells, shown in cases:
        assert (space.cells(output), space.shown_at(output)) == (cells, shown)
        assert (output == space.nothing) == (not cells)
    with pytest.raises(ValueError, match=r"^centres\b.*1 for 2"):
        Regions(((0,), (1,)), (0,))


def test_points_are_rounded_to_metres_and_shown_in_the_nearest_cell() -> None:
    space = Points(GRID)
    for x_km, y_km, cell in ((0.5004, 0.2, 0), (2.9, 1.9, 5), (-7.25, 1.5, 3), (4.0, -900.0, 2), (1.5, 55.0, 4)):
        output = space.output(x_km, y_km)
        assert 0 <= output == int(float(output)), "readers may convert the column to floats"
        assert space.place_km(output) == (round(x_km, 3), round(y_km, 3))
        assert (space.shown_at(output), space.cells(output)) == (cell, (cell,))


@pytest.mark.parametrize(
    "space",
    [Cells(6), CellsOrNothing(6), Regions(((0, 1), (4,)), (1, 4)), Sets(6, 3), Points(GRID)],
    ids=lambda space: str(space.kind),
)
def test_space_is_restored_from_the_manifest(space: OutputSpace) -> None:
    assert read(json.loads(json.dumps(space.describe())), GRID) == space


def test_space_may_differ_between_sweep_points() -> None:
    pair, three = Sets(6, 2).describe(), Sets(6, 3).describe()
    entry: Any = json.loads(json.dumps(described({2: pair, 0: "cells", 1: pair, 3: three})))
    assert [entry["points"] for entry in entry["spaces"]] == [[0], [1, 2], [3]]
    assert [read(entry, GRID, point) for point in range(4)] == [Cells(6), Sets(6, 2), Sets(6, 2), Sets(6, 3)]
    assert described({0: "cells", 1: "cells"}) == "cells"
    assert read("cells", GRID, 7) == Cells(6)
    with pytest.raises(ValueError, match="'clouds'"):
        read({"kind": "clouds"}, GRID)
