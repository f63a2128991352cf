"""Services that users ask about their location, and what a wrong location costs their users.

A service answers a request from the reported position. The loss of a user is a function of the true location and of
the answer to the report: 0 for the answer that the true location would get. Losses of pairs of locations are a quality
distance d_Q (`sim.world.distances.service`); those of the queries of a run are a metric (`sim.analysis.services`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from sim.inference.bayes import read_only
from sim.inference.dense import require_dense
from sim.interfaces import BoolArray, FloatArray, IntArray
from sim.world.locations import Locations


class Service(ABC):
    """A service that answers requests from positions in the plane of some locations."""

    kind: str
    """Kind of the service, such as ``nearest_points``."""
    unit: str
    """Unit of the loss: ``share``, ``km``, ``0/1`` or ``tariff``."""
    unanswered: float = math.nan
    """Loss of a query without a report, which gets no answer; NaN if the service defines none."""

    def __init__(self, locations: Locations) -> None:
        self.locations = locations

    @abstractmethod
    def answers(self, x_km: FloatArray, y_km: FloatArray) -> IntArray:
        """Return the answer to a request from each position, shape (n, width); equal rows are equal answers."""

    @abstractmethod
    def losses(self, cell: int, answers: IntArray) -> FloatArray:
        """Return the losses in [0, inf) of a user in a location who gets these answers, shape (n, width) -> (n,)."""

    @cached_property
    def true_answers(self) -> IntArray:
        """The answer to a request from each location, shape (n_cells, width), read-only."""
        return read_only(self.answers(self.locations.x_km, self.locations.y_km))

    def changed(self, cell: int, answers: IntArray) -> BoolArray:
        """Return which of these answers differ from the answer to the location itself, shape (n,)."""
        return np.asarray((answers != self.true_answers[cell]).any(axis=1))

    def matrix(self) -> FloatArray:
        """Return the losses [true location, reported location], shape (n_cells, n_cells); 0 on the diagonal."""
        n_cells = self.locations.n_cells
        require_dense(n_cells, f"the losses of the service {self.kind} between all pairs of locations")
        matrix = np.empty((n_cells, n_cells))
        for cell in range(n_cells):
            matrix[cell] = self.losses(cell, self.true_answers)
        return matrix
