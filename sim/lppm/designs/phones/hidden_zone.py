"""A privacy zone whose place the adversary does not know, but infers from the reports."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from sim.events import Report
from sim.inference.bayes import normalise
from sim.inference.dense import require_dense
from sim.interfaces import Channel, FloatArray, Generator, IntArray
from sim.lppm.designs.phones.circle import pairs_within
from sim.lppm.outputs import CellsOrNothing
from sim.world.locations import Locations

NEAREST, FARTHEST = 0.1, 0.9
"""Smallest and largest distance of a random centre from home, in radii: OpenBikeSensor's `Gps::randomOffset`."""


class HiddenZone:
    """The hidden state: the centre of the zone, which is drawn once and lies in the centre of a cell.

    `random_centre` displaces it from home by a distance uniform in [0.1, 0.9] radii in a uniform direction. The
    adversary knows the radius, and before the first report any cell is equally likely to be the centre: they do not
    know where home is. Hassan et al. 2018 infer zones from the ends of tracks.
    """

    depends_on_user = True
    approximation = (
        "treats the centre of the zone and the user's cell as independent given the past reports, which is exact only "
        "if the cells of consecutive queries are independent"
    )

    def __init__(self, locations: Locations, radius_km: float, *, random_centre: bool) -> None:
        self.locations = locations
        self.random_centre = random_centre
        self.radius_km = radius_km
        cells, centres = pairs_within(locations, radius_km)
        shape = (locations.n_cells, locations.n_cells)
        self.within = sparse.csr_array((np.ones(cells.size), (cells, centres)), shape=shape)
        """Whether each cell is in the zone around each centre, [cell, centre]."""
        self.uniform: FloatArray = np.full(locations.n_cells, 1 / locations.n_cells)

    def centre(self, home: int, rng: Generator) -> int:
        """Draw the cell of the centre of the zone around a home; the nearest cell if it is outside the grid."""
        if not self.random_centre:
            return home
        away_km = self.radius_km * rng.uniform(NEAREST, FARTHEST)
        angle = rng.uniform(0, 2 * math.pi)
        x_km = float(self.locations.x_km[home]) + away_km * math.cos(angle)
        y_km = float(self.locations.y_km[home]) + away_km * math.sin(angle)
        return int(self.locations.nearest(x_km, y_km))

    def draw(self, secret: int | None, channel: Channel, time_s: int, cell: int, rng: Generator) -> tuple[int, int]:  # noqa: ARG002
        """Return the output of a query, and the cell of the centre, which is drawn at the first query."""
        assert isinstance(channel, HiddenZoneChannel)
        centre = self.centre(channel.home, rng) if secret is None else secret
        return self.locations.n_cells if self.within[cell, centre] else cell, centre

    def tracker(self) -> HiddenZoneTracker:
        """Return a new tracker."""
        return HiddenZoneTracker(self)


class HiddenZoneTracker:
    """The probability of each centre, given the reports of one user."""

    def __init__(self, zone: HiddenZone) -> None:
        self._zone = zone
        self.centres: FloatArray = zone.uniform
        """p(centre | z^r), shape (n_cells,)."""
        self._output = -1
        self._likelihood: FloatArray = zone.uniform

    def likelihood(self, report: Report, prior: FloatArray, link: Any) -> FloatArray:  # noqa: ARG002
        """Return p(z^r | x^r, z^{r-1}); if the reports contradict each other, that without the past ones."""
        self._output = report.output
        self._likelihood = self._given(self.centres)
        if not self._likelihood.any():
            self.centres = self._zone.uniform
            self._likelihood = self._given(self.centres)
        return self._likelihood.copy()

    def condition(self, posterior: FloatArray) -> None:
        """Continue from p(x^r | z^r): a centre is as likely as the report around it."""
        within = self._zone.within
        if self._output < self._zone.locations.n_cells:
            evidence = 1 - within[[self._output]].toarray()[0]
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                evidence = within.T @ np.where(self._likelihood > 0, posterior / self._likelihood, 0.0)
        weights = self.centres * evidence
        self.centres = normalise(weights) if weights.any() else self._zone.uniform

    def _given(self, centres: FloatArray) -> FloatArray:
        """Return the likelihood of the output in each cell under a distribution of the centre."""
        inside = np.asarray(self._zone.within @ centres)
        if self._output == self._zone.locations.n_cells:
            return inside
        likelihood: FloatArray = np.zeros(inside.size)
        likelihood[self._output] = max(1 - inside[self._output], 0.0)
        return likelihood


class HiddenZoneChannel:
    """f(z | x) of a zone around a new random cell in every query: the true cell or nothing.

    `loss_km(cell, output)` is the quality loss in km.
    """

    countless = False

    def __init__(self, zone: HiddenZone, *, home: int, loss_km: Callable[[int, int], float]) -> None:
        self.hidden_state = zone
        self.home = home
        """The cell around which the user places the zone; no attack uses it."""
        self.n_cells = zone.locations.n_cells
        self.n_outputs = self.n_cells + 1
        self.space = CellsOrNothing(self.n_cells)
        self._silent = np.asarray(zone.within @ zone.uniform)
        """Probability of no report in each cell."""
        self._loss_km = loss_km

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw an output."""
        return self.n_cells if rng.random() < self._silent[cell] else cell

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .)."""
        if output == self.n_cells:
            return self._silent.copy()
        likelihood: FloatArray = np.zeros(self.n_cells)
        likelihood[output] = 1 - self._silent[output]
        return likelihood

    def row(self, cell: int) -> FloatArray:
        """Return f(. | x)."""
        row: FloatArray = np.zeros(self.n_outputs)
        row[[cell, self.n_cells]] = 1 - self._silent[cell], self._silent[cell]
        return row

    def matrix(self) -> FloatArray:
        """Return f(z | x) as a matrix [cell, output], shape (n_cells, n_outputs)."""
        require_dense(self.n_cells, "the probabilities of all outputs in all cells")
        return np.column_stack([np.diag(1 - self._silent), self._silent])

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return the possible outputs and f(z | .) of each, shape (k, n_cells)."""
        matrix = self.matrix()
        possible = np.flatnonzero(matrix.any(axis=0))
        return possible, matrix.T[possible]

    def loss_of_km(self, cell: int, output: int) -> float:
        """Return the loss in km of an output in a cell."""
        return self._loss_km(cell, output)

    def expected_loss_of_km(self, cell: int) -> float:
        """Return the expected loss in km in a cell."""
        silent = float(self._silent[cell])
        return (1 - silent) * self._loss_km(cell, cell) + silent * self._loss_km(cell, self.n_cells)
