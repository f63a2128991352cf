"""Maps of locations that are not the cells of a grid: positions, outlines and beliefs are drawn where they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, PolyCollection

from sim.analysis.trajectories import UserTrace
from sim.interfaces import FloatArray
from sim.plots import base_map, style
from sim.plots.base_map import BaseMap
from sim.plots.map import Guesses, map_figure
from sim.storage.manifest import RecordedWorld
from sim.world import LocationSet

COUNT = 40
pytestmark = pytest.mark.usefixtures("unsettled")


@pytest.fixture
def unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the layout, which takes most of the time."""
    monkeypatch.setattr(style, "settled", lambda figure, **_: figure)


def locations(outlines: tuple[FloatArray, ...] | None = None) -> LocationSet:
    rng = np.random.default_rng(2)
    x_km, y_km = rng.uniform(0, 8, COUNT), rng.uniform(0, 5, COUNT)
    return LocationSet(kind="points", x_km=x_km, y_km=y_km, width_km=8.0, height_km=5.0, outlines=outlines)


def around(corners: list[tuple[float, float]]) -> LocationSet:
    """Return locations whose outlines have these corners, in km from the position."""
    at = np.column_stack([locations().x_km, locations().y_km])
    return locations(tuple(one + np.array(corners) for one in at))


def panel_of(places: LocationSet, belief: FloatArray) -> Axes:
    world = BaseMap.of(RecordedWorld(points=[0], locations=places.describe(), traces={}))
    queries = pd.DataFrame(
        {"index": [1, 2], "time_s": [0.0, 1.0], "cell": [3, 9], "shown": [[5], [6]], "estimate": [3, 4]}
    )
    figure = map_figure({"A": UserTrace(queries, belief, 2)}, world, user="u", guesses=Guesses("markov"), width=3.5)
    return figure.axes[0]


def drawn(panel: Axes, kind: type) -> list[FloatArray]:
    return [
        np.asarray(one.get_array()) for one in panel.collections if type(one) is kind and one.get_array() is not None
    ]


BELIEF = np.random.default_rng(3).dirichlet(np.full(COUNT, 0.3))


def test_points_are_discs_at_their_positions() -> None:
    panel = panel_of(locations(), BELIEF)
    (heat,) = [one for one in panel.collections if isinstance(one, PathCollection) and one.get_array() is not None]
    at, values = np.asarray(heat.get_offsets()), np.asarray(heat.get_array())
    order = np.argsort(BELIEF)
    np.testing.assert_allclose(values, BELIEF[order])
    np.testing.assert_allclose(at, np.column_stack([locations().x_km, locations().y_km])[order])
    way = panel.get_lines()[0]
    assert list(way.get_xdata()) == pytest.approx(locations().x_km[[3, 9]].tolist())  # type: ignore[arg-type]


def test_areas_are_polygons() -> None:
    places = around([(0, 0), (0.4, 0), (0.2, 0.4), (0, 0)])
    (heat,) = [one for one in panel_of(places, BELIEF).collections if isinstance(one, PolyCollection)]
    likeliest, outlines = int(BELIEF.argmax()), places.outlines
    assert outlines is not None
    assert np.asarray(heat.get_array())[-1] == BELIEF[likeliest]
    np.testing.assert_allclose(np.asarray(heat.get_paths()[-1].vertices)[:4], outlines[likeliest], atol=0.0006)


def test_unlikely_parts_of_roads_do_not_hide_the_roads() -> None:
    places = around([(-0.2, 0), (0.2, 0)])
    (values,) = drawn(panel_of(places, BELIEF), LineCollection)
    assert values.tolist() == sorted(BELIEF[0.01 * BELIEF.max() <= BELIEF].tolist())
    assert len(values) < COUNT


def test_a_section_of_many_locations_contains_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_map, "MOST_QUADS", 10)
    monkeypatch.setattr(base_map, "_LEAST_CELLS", 2)
    panel = panel_of(locations(), BELIEF)
    for low_high, at in ((panel.get_xlim(), locations().x_km), (panel.get_ylim(), locations().y_km)):
        for cell in (3, 4, 5, 6, 9):
            assert low_high[0] <= at[cell] <= low_high[1]
    assert panel.get_xlim()[1] - panel.get_xlim()[0] < 8
