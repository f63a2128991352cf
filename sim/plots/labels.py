"""Names in figures: literal text, and labels placed next to points without overlaps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from sim.interfaces import FloatArray

HEIGHT, LETTER, OFFSET = 0.05, 0.025, 0.035
"""Height of a label, width of a letter and distance of a label from its point, as fractions of the panel."""

POINT = 0.015
"""Half the size of a point, as a fraction of the panel."""

Box = tuple[float, float, float, float]
"""Left, right, bottom, top."""


def printable(name: str, keep: str = "") -> str:
    """Replace characters that are not printable, such as direction marks, by a replacement character.

    >>> printable("a" + chr(0x202E) + "b")
    'a�b'
    """
    return "".join(letter if letter.isprintable() or letter in keep else "�" for letter in name)


def literal(name: str, limit: int = 32) -> str:
    r"""Escape a name so that a figure shows it literally, shortened to `limit` characters.

    >>> print(literal("a$b$"))
    a\$b\$
    """
    shown = printable(name)
    if len(shown) > limit:
        shown = shown[: limit - 1] + "…"
    return shown.replace("$", r"\$")


def label_points(
    panel: Axes, points: FloatArray, names: Sequence[str], colours: Sequence[str], others: FloatArray | None = None
) -> None:
    """Write a name next to each point (x, y), given as fractions of a square panel, and connect them by a thin line.

    `others` are further points without a name, which labels must not cover either.
    """
    texts = [literal(name) for name in names]
    places = place_labels(points, [LETTER * len(text) for text in texts], others)
    for text, colour, point, place in zip(texts, colours, points, places, strict=True):
        label = panel.annotate(
            text,
            point,
            xycoords="axes fraction",
            xytext=place,
            textcoords="axes fraction",
            verticalalignment="center",
            fontsize=7.5,
            color=colour,
            arrowprops={"arrowstyle": "-", "color": "#aaaaaa", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3},
        )
        label.set_path_effects([withStroke(linewidth=2, foreground="white")])


def place_labels(
    points: FloatArray, widths: Sequence[float], others: FloatArray | None = None
) -> list[tuple[float, float]]:
    """Return the left end of each label at half its height, as fractions of a square panel.

    A label is placed to the right of its point, otherwise to the left, otherwise increasingly higher or lower, so that
    it covers no point and no other label. If no position is free, the one with the least overlap is used.

    >>> place_labels(np.array([[0.5, 0.5]]), [0.2])
    [(0.535, 0.5)]
    """
    all_points = points.tolist() + ([] if others is None else others.tolist())
    taken = [(x - POINT, x + POINT, y - POINT, y + POINT) for x, y in all_points]
    places = []
    for (x, y), width in zip(points.tolist(), widths, strict=True):
        candidates = [
            (start, y + sign * shift * 0.5 * HEIGHT)
            for shift in range(8)
            for start in (x + OFFSET, x - OFFSET - width)
            for sign in (1, -1)
            if start >= 0
        ]
        costs = [sum(_overlap(_box(place, width), box) for box in taken) for place in candidates]
        best = candidates[int(np.argmin(costs))]
        taken.append(_box(best, width))
        places.append(best)
    return places


def _box(place: tuple[float, float], width: float) -> Box:
    return place[0], place[0] + width, place[1] - 0.5 * HEIGHT, place[1] + 0.5 * HEIGHT


def _overlap(a: Box, b: Box) -> float:
    across, up = min(a[1], b[1]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[2], b[2])
    return across * up if across > 0 and up > 0 else 0.0
