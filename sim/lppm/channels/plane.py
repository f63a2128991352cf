"""A base channel whose outputs are replaced by the best points of the plane for a prior."""

from __future__ import annotations

from functools import cached_property
from typing import NoReturn

import numpy as np

from sim.errors import InvalidValue
from sim.inference.geometric_median import best_point
from sim.inference.ties import MASS_FLOOR
from sim.interfaces import FloatArray, Generator, IntArray
from sim.lppm.channels.base import BaseChannel
from sim.lppm.epsilon import exact_epsilon_per_km
from sim.lppm.outputs import Points
from sim.lppm.place_loss import loss_at_km
from sim.world.distance import Distance
from sim.world.locations import Locations


class PlaneRemappedChannel:
    """A base channel whose outputs pass through z~ -> argmin over points p of sum_x prior(x) f(z~ | x) d_Q(x, p).

    Oya et al., CCS 2017, Sect. 3. The points are rounded to metres, since the log has whole outputs. Two outputs with
    the same point are one report: its likelihood needs the points of all outputs, which are computed at its first use.
    An output without posterior mass becomes the position of its location.
    """

    countless = True

    def __init__(self, base: BaseChannel, prior: FloatArray, *, locations: Locations, distance: Distance) -> None:
        if distance.kind not in ("euclidean", "manhattan"):
            raise ValueError(f"distance must be euclidean or manhattan, got {distance.kind}")
        self.base = base
        self.space = Points(locations)
        self.n_cells, self.n_outputs = base.n_cells, self.space.count
        self._prior, self._locations, self._distance = prior, locations, distance
        self._reports: dict[int, int] = {}

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw a point."""
        return self._report(self.base.sample(cell, rng))

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .): the sum over the outputs that become this point; zeros for any other point."""
        reports, which = self._distinct
        place = int(np.searchsorted(reports, output))
        if place == reports.size or reports[place] != output:
            return np.zeros(self.n_cells)
        return self.base.column_through(which, place)

    def loss_of_km(self, cell: int, output: int) -> float:
        """Return d_Q in km between a location and a point."""
        return loss_at_km(self._locations, self._distance, cell, *self.space.place_km(output))

    def expected_loss_of_km(self, cell: int) -> float:
        """Return the expected loss in km in a cell."""
        return float(self._losses_km[cell])

    def loss_km(self, prior: FloatArray) -> float:
        """Return the expected loss in km under a prior."""
        return float(prior @ self._losses_km)

    def epsilon_in_per_km(self, distance: Distance) -> float:
        """Return a bound of epsilon per km of a distance: that of the base channel, since a remap reveals no more."""
        return exact_epsilon_per_km(self.base, distance)

    def row(self, cell: int) -> FloatArray:  # noqa: ARG002
        """Raise an error: few points of the plane are outputs."""
        self._refuse()

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Raise an error: few points of the plane are outputs."""
        self._refuse()

    def matrix(self) -> FloatArray:
        """Raise an error: few points of the plane are outputs."""
        self._refuse()

    def _report(self, output: int) -> int:
        """Return the number of the point that replaces an output of the base channel."""
        report = self._reports.get(output)
        if report is None:
            weights = self._prior * self.base.likelihood(output)
            report = self._reports[output] = self.space.output(*self._best(weights, output))
        return report

    def _best(self, weights: FloatArray, output: int) -> tuple[float, float]:
        x_km, y_km = self._locations.x_km, self._locations.y_km
        if not weights.sum() > MASS_FLOOR:
            return float(x_km[output]), float(y_km[output])
        if self._distance.kind == "manhattan":
            return _median(x_km, weights), _median(y_km, weights)
        return best_point(weights, x_km, y_km)

    @cached_property
    def _distinct(self) -> tuple[IntArray, IntArray]:
        """Numbers of the distinct points, sorted, and the place of that of each output of the base channel."""
        reports = np.array([self._report(output) for output in range(self.base.n_outputs)], dtype=np.int64)
        return np.unique(reports, return_inverse=True)

    @cached_property
    def _losses_km(self) -> FloatArray:
        reports, which = self._distinct
        at = np.array([self.space.place_km(report) for report in reports.tolist()])[which]
        x_km, y_km = self._locations.x_km, self._locations.y_km
        losses = np.empty(self.n_cells)
        for cell in range(self.n_cells):
            east, north = at[:, 0] - x_km[cell], at[:, 1] - y_km[cell]
            away = np.hypot(east, north) if self._distance.kind == "euclidean" else np.abs(east) + np.abs(north)
            losses[cell] = self.base.row(cell) @ away
        return losses

    def _refuse(self) -> NoReturn:
        raise InvalidValue("too many outputs to enumerate: call `likelihood` of one point", code="too-many-outputs")


def _median(at_km: FloatArray, weights: FloatArray) -> float:
    """Return the weighted median: the lowest position whose cumulative weight reaches half of the total.

    >>> _median(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 0.0]))
    1.0
    """
    order = np.argsort(at_km, kind="stable")
    cumulative = weights[order].cumsum()
    return float(at_km[order[np.searchsorted(cumulative, (0.5 - 1e-12) * cumulative[-1])]])
