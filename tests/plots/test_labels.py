"""Labels are next to their points, cover neither points nor labels if possible, and are literal text."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from sim.plots import labels
from sim.plots.labels import HEIGHT, OFFSET, label_points, literal, place_labels

Place = tuple[float, float]


def shared(one: Place, other: Place, width: float) -> float:
    """Return the overlap of two labels of the same width, given by their left ends at half height."""
    across, up = (length - abs(a - b) for a, b, length in zip(one, other, (width, HEIGHT), strict=True))
    return max(across, 0.0) * max(up, 0.0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 0.75), st.floats(0, 1)), min_size=1, max_size=6))
def test_labels_cover_neither_points_nor_labels_if_possible(points: list[Place]) -> None:
    places = place_labels(np.array(points), [0.2] * len(points))
    assert len(places) == len(points)
    assert all(x >= 0 for x, _ in places)
    if len(points) <= 2:
        assert all(shared(one, other, 0.2) < 1e-15 for one, other in itertools.combinations(places, 2))
        for (x, y), (left, middle) in itertools.product(points, places):
            inside = left < x < left + 0.2 and abs(y - middle) < HEIGHT / 2
            assert not inside, "a label covers a point"


def test_label_is_placed_right_then_left_then_up_or_down() -> None:
    assert place_labels(np.array([[0.5, 0.5]]), [0.2]) == [(0.5 + OFFSET, 0.5)]
    (first, _) = place_labels(np.array([[0.5, 0.5], [0.6, 0.5]]), [0.2, 0.2])
    np.testing.assert_allclose(first, (0.5 - OFFSET - 0.2, 0.5))
    # If there is not enough space on the left, the label moves up.
    (first, _) = place_labels(np.array([[0.1, 0.5], [0.2, 0.5]]), [0.2, 0.2])
    assert first[0] == 0.1 + OFFSET
    assert 0.5 < first[1] < 0.6


def test_overlaps_are_areas() -> None:
    assert labels._overlap((0, 2, 0, 2), (1, 3, 1, 5)) == 1
    assert labels._overlap((0, 2, 0, 2), (0.5, 1, -1, 5)) == 1
    assert labels._overlap((0, 2, 0, 2), (2, 3, 0, 2)) == 0
    assert labels._overlap((0, 2, 0, 2), (3, 4, 3, 4)) == 0


def test_literal() -> None:
    assert literal("a_b^{c}") == "a_b^{c}"
    assert literal("$") == r"\$"
    assert literal("a\nb") == "a�b"
    assert len(literal("x" * 100)) == 32


def test_names_are_literal_and_in_their_colours() -> None:
    panel = Figure().subplots()
    label_points(panel, np.array([[0.2, 0.2], [0.7, 0.7]]), ["SP", "$P$"], ["#0072B2", "#D55E00"])
    assert [(text.get_text(), text.get_color()) for text in panel.texts] == [("SP", "#0072B2"), (r"\$P\$", "#D55E00")]
