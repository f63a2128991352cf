"""Parameters of grids: numbers of cells, or the size of a cell from which they follow."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sim.world.parameters import GridParameters
from tests.support import MakeScenario, raises_code

MUNICH = {"kind": "region", "south": 48.06, "north": 48.25, "west": 11.36, "east": 11.72}
RECTANGLE = {"kind": "rectangle", "width_km": 3.26, "height_km": 1.04}


def grid_of(make_scenario: MakeScenario, grid: dict[str, Any] | str) -> GridParameters:
    return make_scenario(world={"grid": grid}).world.grid


@pytest.mark.parametrize(
    ("grid", "cell_m", "shape"),
    [
        (RECTANGLE, 100, (10, 33)),
        (RECTANGLE, 1040, (1, 3)),
        (RECTANGLE, 1e6, (1, 1)),
        (MUNICH, 100, (211, 267)),  # 21.13 x 26.71 km
        ({"kind": "san_francisco"}, 1000, (28, 12)),  # 27.91 x 12.01 km
    ],
)
def test_the_numbers_of_cells_follow_from_their_size(
    grid: dict[str, Any], cell_m: float, shape: tuple[int, int], make_scenario: MakeScenario
) -> None:
    parameters = grid_of(make_scenario, grid | {"cell_m": cell_m})
    built = parameters.build()
    assert parameters.shape == built.shape == shape
    assert parameters.n_cells == built.n_cells
    for count, extent_km in zip(shape, (built.height_km, built.width_km), strict=True):
        # No other number of cells is closer to the extent divided by the size.
        assert count == 1 or abs(count - extent_km * 1000 / cell_m) <= 0.5


def test_a_size_and_the_numbers_that_follow_are_the_same_experiment(make_scenario: MakeScenario) -> None:
    by_size = make_scenario(world={"grid": RECTANGLE | {"cell_m": 100}})
    by_number = make_scenario(world={"grid": RECTANGLE | {"rows": 10, "cols": 33}})
    assert by_size.digest == by_number.digest
    assert by_size.world.build(1, by_size.place).grid == by_number.world.build(1, by_number.place).grid
    assert make_scenario(world={"grid": RECTANGLE | {"cell_m": 200}}).digest != by_size.digest
    changed = by_size.with_settings({"world.grid.cell_m": 200})
    assert changed.world.grid.shape == (5, 16)


@pytest.mark.parametrize(
    ("grid", "code", "words"),
    [
        (RECTANGLE | {"cell_m": 100, "rows": 10}, "exclusive-keys", "`cell_m` and `rows`"),
        ({"kind": "san_francisco", "cell_m": 100, "cols": 10}, "exclusive-keys", "`cell_m` and `cols`"),
        (RECTANGLE, "missing-key", "found neither"),
        (RECTANGLE | {"rows": 10}, "missing-key", "found only `rows`"),
        (RECTANGLE | {"cols": 10}, "missing-key", "found only `cols`"),
        (RECTANGLE | {"cell_m": 0.1}, "too-many-cells", "10,400 x 32,600"),
    ],
)
def test_invalid_sizes_are_refused(grid: dict[str, Any], code: str, words: str, make_scenario: MakeScenario) -> None:
    with raises_code(ValidationError, code) as error:
        grid_of(make_scenario, grid)
    assert words in str(error.value)
