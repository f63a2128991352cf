"""Output spaces: every output stands for one thing, and the manifest says all of it."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest

from sim.interfaces import OutputSpace
from sim.lppm.outputs import Cells, CellsOrNothing, Points, Regions, Sets, described, read
from sim.world.grid import Grid

GRID = Grid.rectangle(rows=2, cols=3, width_km=3.0, height_km=2.0)


@pytest.mark.parametrize("size", range(1, 7))
def test_sets_are_numbered_from_nought_without_a_gap(size: int) -> None:
    space = Sets(6, size)
    numbers = {space.output(cells): cells for cells in combinations(range(6), size)}
    assert sorted(numbers) == list(range(space.count))
    assert all(space.cells(output) == cells for output, cells in numbers.items())
    assert all(space.output(cells[::-1]) == output for output, cells in numbers.items())


def test_the_largest_sets_fit_into_the_log() -> None:
    space = Sets(250, 8)
    last = tuple(range(242, 250))
    assert space.output(last) == space.count - 1 == int(float(space.count - 1))
    assert space.cells(space.count - 1) == last
    with pytest.raises(ValueError, match=r"more than 2\^53 sets of 9 of 250 cells: take smaller ones"):
        Sets(250, 9)
    for size in (0, 7):
        with pytest.raises(ValueError, match=rf"size must be in \[1, 6\], the number of cells, got {size}"):
            Sets(6, size)


def test_what_an_output_names_and_where_it_is_shown() -> None:
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
    with pytest.raises(ValueError, match="every region has a centre, got 2 and 1"):
        Regions(((0,), (1,)), (0,))


def test_points_are_kept_to_the_metre_and_shown_in_the_nearest_cell() -> None:
    space = Points(GRID)
    for x_km, y_km, cell in ((0.5004, 0.2, 0), (2.9, 1.9, 5), (-7.25, 1.5, 3), (4.0, -900.0, 2), (1.5, 55.0, 4)):
        output = space.output(x_km, y_km)
        assert 0 <= output == int(float(output)), "a reader may make a float of it"
        assert space.place_km(output) == (round(x_km, 3), round(y_km, 3))
        assert (space.shown_at(output), space.cells(output)) == (cell, (cell,))


@pytest.mark.parametrize(
    "space",
    [Cells(6), CellsOrNothing(6), Regions(((0, 1), (4,)), (1, 4)), Sets(6, 3), Points(GRID)],
    ids=lambda space: str(space.kind),
)
def test_the_manifest_says_all_of_a_space(space: OutputSpace) -> None:
    assert read(json.loads(json.dumps(space.describe())), GRID) == space


def test_a_space_may_differ_between_the_points_of_a_sweep() -> None:
    pair, three = Sets(6, 2).describe(), Sets(6, 3).describe()
    said: Any = json.loads(json.dumps(described({2: pair, 0: "cells", 1: pair, 3: three})))
    assert [entry["points"] for entry in said["spaces"]] == [[0], [1, 2], [3]]
    assert [read(said, GRID, point) for point in range(4)] == [Cells(6), Sets(6, 2), Sets(6, 2), Sets(6, 3)]
    assert described({0: "cells", 1: "cells"}) == "cells"
    assert read("cells", GRID, 7) == Cells(6)
    with pytest.raises(ValueError, match="no output space is called 'clouds'"):
        read({"kind": "clouds"}, GRID)
