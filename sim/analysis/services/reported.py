"""Answers of a service to the reports of a mechanism, and the losses of queries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim.interfaces import BoolArray, FloatArray, IntArray, OutputSpace
from sim.lppm.outputs import Places, Points
from sim.world import Locations, Service

NO_REPORT = -1
"""Stands for the output of a query without a report."""


class Losses(NamedTuple):
    """Losses of queries, shape (n,) each."""

    loss: FloatArray
    """NaN for a query without an answer if the service defines no loss for it."""
    changed: BoolArray
    """Whether the answer differs from that to the true location; always so without an answer."""
    answered: BoolArray
    """Whether the report names a place."""


def positions_of(space: OutputSpace, output: int, locations: Locations) -> list[tuple[float, float]]:
    """Return the positions in km that a service gets with a report; none if the report names no place.

    A point is a position, a cell or region that of its centre. A set of cells is a request for each of them.
    """
    if output in (NO_REPORT, space.nothing):
        return []
    if isinstance(space, Points | Places):
        return [space.place_km(output)]
    shown = space.shown_at(output)
    cells = (shown,) if shown >= 0 else space.cells(output)
    return [(float(locations.x_km[cell]), float(locations.y_km[cell])) for cell in cells]


def losses_of(service: Service, space: OutputSpace, cells: IntArray, outputs: IntArray) -> Losses:
    """Return the losses of queries in these true locations with these outputs, shape (n,) each.

    Of several answers to a report, as for a set of cells, the user keeps the best one: each query has the smallest loss
    and counts as changed if all answers are changed.
    """
    distinct, which = np.unique(outputs, return_inverse=True)
    pairs, place = np.unique(cells * distinct.size + which, return_inverse=True)
    loss, changed, answered = _of_pairs(service, space, pairs // distinct.size, distinct, pairs % distinct.size)
    return Losses(loss[place], changed[place], answered[place])


def _of_pairs(service: Service, space: OutputSpace, cells: IntArray, outputs: IntArray, which: IntArray) -> Losses:
    """Return the losses of pairs of a true location, in ascending order, and one of the distinct outputs."""
    positions = [positions_of(space, output, service.locations) for output in outputs.tolist()]
    counts = np.array([len(own) for own in positions], dtype=np.int64)
    n_answers = counts[which]
    loss, changed, answered = np.full(len(cells), np.inf), np.ones(len(cells), dtype=bool), n_answers > 0
    if not answered.any():
        return Losses(np.full(len(cells), service.unanswered), changed, answered)
    at = np.array([position for own in positions for position in own])
    answers = service.answers(at[:, 0], at[:, 1])
    # One row per pair and answer; `first` is the first answer to each distinct output.
    first = np.cumsum(counts) - counts
    pair = np.repeat(np.arange(len(cells)), n_answers)
    row = np.arange(pair.size) - np.repeat(np.cumsum(n_answers) - n_answers, n_answers) + first[which][pair]
    starts = np.flatnonzero(np.diff(cells[pair], prepend=-1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), pair.size], strict=True):
        cell, own, given = int(cells[pair[start]]), pair[start:end], answers[row[start:end]]
        np.minimum.at(loss, own, service.losses(cell, given))
        np.logical_and.at(changed, own, service.changed(cell, given))
    return Losses(np.where(answered, loss, service.unanswered), changed, answered)
