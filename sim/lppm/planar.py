"""Geo-indistinguishable designs: noise in the plane that is the same wherever the user is.

Andrés et al. 2013 promise an epsilon: f(z | x) <= exp(epsilon d(x, x')) f(z | x') for all cells x, x' and outputs z. A
remap, being post-processing, keeps it and costs the user less (Chatzikokolakis et al. 2017).
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import Literal, NoReturn, get_args

import numpy as np

from sim.interfaces import Channel, FloatArray, Generator, IntArray
from sim.lppm.channel import MatrixChannel, ProductChannel
from sim.lppm.designs import ByEpsilon, epsilon_that_loses, require_one
from sim.lppm.epsilon import steepest_per_km
from sim.lppm.outputs import Points
from sim.lppm.planar_noise import Truncate, geometric_kernel, geometric_matrix, laplace_matrix
from sim.world.distance import Distance, euclidean
from sim.world.grid import Grid

Metric = Literal["euclidean", "manhattan"]

EPSILON_OF_PLACES_PER_KM = (1e-3, 100.0)
"""Places are told to the metre: beyond, that would be most of the noise. The other end is noise around the globe."""

_SQUARE_KM2 = 1e-6
_LOSS_KM_AT_ONE = {"euclidean": 2.0, "manhattan": 8 / math.pi}
"""The loss of places at epsilon 1: the mean radius is 2, and on average |cos| + |sin| is 4 / pi."""


class PlanarLaplace:
    """The planar Laplace mechanism: a place at a distance r from where one is has a density ∝ exp(-epsilon r).

    Andrés et al. 2013, Sect. 4. It promises epsilon in the Euclidean distance. As a rule a place is told as its cell,
    and one outside the grid as the nearest cell: with exact integrals over cells this is post-processing of the place
    and keeps epsilon as it is, with no correction for a finite precision. `truncate` `renormalise` draws again what
    falls outside, which promises 2 epsilon only. With `discretise` False outputs are places to the metre, neither
    truncated nor remapped.

    Give one of epsilon_per_km in [0, inf) and quality_budget_km in [0, inf); for places epsilon is in [0.001, 100].
    `remap` is what `discretise` is unless said. `distance` is the quality distance d_Q.
    """

    def __init__(
        self,
        *,
        grid: Grid,
        distance: Distance,
        epsilon_per_km: float | None = None,
        quality_budget_km: float | None = None,
        discretise: bool = True,
        truncate: Truncate = "nearest",
        remap: bool | None = None,
    ) -> None:
        if truncate not in get_args(Truncate):
            raise ValueError(f"truncate must be one of {get_args(Truncate)}, got {truncate!r}")
        if not discretise and (remap or truncate != "nearest"):
            raise ValueError(
                f"places are neither remapped nor truncated, got remap {remap} and truncate {truncate!r}: "
                "leave them out or say discretise: true"
            )
        self._design: ByEpsilon | _LaplacePlaces
        if discretise:
            self._design = ByEpsilon(
                make=partial(_laplace, grid, truncate),
                distance=distance,
                epsilon_per_km=epsilon_per_km,
                quality_budget_km=quality_budget_km,
                remap=remap is not False,
            )
        else:
            self._design = _LaplacePlaces(grid, distance, epsilon_per_km, quality_budget_km)
        self.uses_prior = self._design.uses_prior
        self.space = None if discretise else Points(grid)
        """What outputs stand for, where they are places."""

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        return self._design(prior)


class PlanarGeometric(ByEpsilon):
    """The planar geometric mechanism: f(z | x) ∝ exp(-epsilon d(x, z)) on the endless lattice of the cells' centres.

    All cells share one normaliser, and what lies outside the grid goes to the nearest cell. So it promises epsilon in
    its `metric`, where the exponential mechanism promises 2 epsilon. In the Manhattan distance it is the geometric
    mechanism of Ghosh et al. 2009 on each axis.

    Give one of epsilon_per_km in [0, inf) and quality_budget_km in [0, inf). `distance` is the quality distance d_Q.
    """

    def __init__(
        self,
        *,
        grid: Grid,
        distance: Distance,
        epsilon_per_km: float | None = None,
        quality_budget_km: float | None = None,
        metric: Metric = "euclidean",
        remap: bool = True,
    ) -> None:
        if metric not in get_args(Metric):
            raise ValueError(f"metric must be one of {get_args(Metric)}, got {metric!r}")
        super().__init__(
            make=partial(_geometric, grid, metric),
            distance=distance,
            epsilon_per_km=epsilon_per_km,
            quality_budget_km=quality_budget_km,
            remap=remap,
        )


class LaplacePlacesChannel:
    """The planar Laplace mechanism whose outputs are places to the metre, too many to list.

    The probability of a place is taken as the density at it times a square metre.
    """

    countless = True

    def __init__(self, *, grid: Grid, distance: Distance, epsilon_per_km: float) -> None:
        self.space = Points(grid)
        self.epsilon_per_km = epsilon_per_km
        self.n_cells, self.n_outputs = grid.n_cells, self.space.count
        self._grid, self._distance = grid, distance

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw a place: a direction, and a distance from a gamma distribution of shape 2."""
        angle, radius_km = rng.random() * 2 * math.pi, rng.gamma(2, 1 / self.epsilon_per_km)
        grid = self._grid
        return self.space.output(
            grid.x_km[cell] + radius_km * math.cos(angle), grid.y_km[cell] + radius_km * math.sin(angle)
        )

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .)."""
        east_km, north_km = self._away_km(output)
        density = self.epsilon_per_km**2 / (2 * math.pi) * np.exp(-self.epsilon_per_km * np.hypot(east_km, north_km))
        return np.asarray(density * _SQUARE_KM2)

    def loss_of_km(self, cell: int, output: int) -> float:
        """Return d_Q between the centre of a cell and a place, or the cell of the place if d_Q knows cells only."""
        east_km, north_km = self._away_km(output)
        match self._distance.kind:
            case "euclidean":
                return math.hypot(east_km[cell], north_km[cell])
            case "manhattan":
                return float(abs(east_km[cell]) + abs(north_km[cell]))
        return float(self._distance.matrix_km[cell, self.space.shown_at(output)])

    def expected_loss_of_km(self, cell: int) -> float:
        """Return the loss to expect in a cell."""
        return float(self._losses_km[cell])

    def epsilon_in_per_km(self, distance: Distance) -> float:
        """Return the exact epsilon in any distance: places far beyond two cells tell them apart by all of epsilon."""
        return steepest_per_km(self.epsilon_per_km * euclidean(self._grid).matrix_km, distance.matrix_km)

    def row(self, cell: int) -> FloatArray:  # noqa: ARG002
        """Refuse: there are too many places."""
        self._refuse()

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Refuse: there are too many places."""
        self._refuse()

    def matrix(self) -> FloatArray:
        """Refuse: there are too many places."""
        self._refuse()

    def _away_km(self, output: int) -> tuple[FloatArray, FloatArray]:
        x_km, y_km = self.space.place_km(output)
        return x_km - self._grid.x_km, y_km - self._grid.y_km

    @cached_property
    def _losses_km(self) -> FloatArray:
        return _losses_of_places_km(self._grid, self._distance, self.epsilon_per_km)

    def _refuse(self) -> NoReturn:
        raise ValueError("places are too many to list: ask for the likelihood of one, or say discretise: true")


class _LaplacePlaces:
    """Make the channel of places, the same for all priors unless a budget is spent in a distance between cells."""

    def __init__(
        self, grid: Grid, distance: Distance, epsilon_per_km: float | None, quality_budget_km: float | None
    ) -> None:
        require_one("epsilon_per_km", epsilon_per_km, quality_budget_km)
        if quality_budget_km is not None and not 0 < quality_budget_km < math.inf:
            raise ValueError(f"quality_budget_km of places must be in (0, inf), got {quality_budget_km}")
        at_one_km = _LOSS_KM_AT_ONE.get(distance.kind)
        if quality_budget_km is not None and at_one_km is not None:
            epsilon_per_km = at_one_km / quality_budget_km
        if epsilon_per_km is not None:
            _require_places(epsilon_per_km, quality_budget_km)
        self.uses_prior = epsilon_per_km is None
        self._grid, self._distance, self._budget_km = grid, distance, quality_budget_km
        self._channel = None if epsilon_per_km is None else self._of(epsilon_per_km)

    def __call__(self, prior: FloatArray) -> Channel:
        if self._channel is not None:
            return self._channel
        assert self._budget_km is not None

        def loss_km(epsilon_per_km: float) -> float:
            return float(prior @ _losses_of_places_km(self._grid, self._distance, epsilon_per_km))

        epsilon_per_km = max(
            epsilon_that_loses(loss_km, self._budget_km), EPSILON_OF_PLACES_PER_KM[0]
        )  # what cannot be spent is not
        _require_places(epsilon_per_km, self._budget_km)
        return self._of(epsilon_per_km)

    def _of(self, epsilon_per_km: float) -> LaplacePlacesChannel:
        return LaplacePlacesChannel(grid=self._grid, distance=self._distance, epsilon_per_km=epsilon_per_km)


def _require_places(epsilon_per_km: float, budget_km: float | None) -> None:
    least, most = EPSILON_OF_PLACES_PER_KM
    if not least <= epsilon_per_km <= most:
        needed = "" if budget_km is None else f", which quality_budget_km {budget_km:g} needs: choose another budget"
        raise ValueError(f"epsilon_per_km of places must be in [{least}, {most:g}], got {epsilon_per_km:g}{needed}")


def _laplace(grid: Grid, truncate: Truncate, epsilon_per_km: float) -> MatrixChannel:
    return MatrixChannel(laplace_matrix(grid, epsilon_per_km, truncate))


def _geometric(grid: Grid, metric: Metric, epsilon_per_km: float) -> MatrixChannel | ProductChannel:
    if metric == "euclidean":
        return MatrixChannel(geometric_matrix(grid, epsilon_per_km))
    rows = geometric_kernel(grid.rows, epsilon_per_km * grid.height_km / grid.rows)
    return ProductChannel(rows, geometric_kernel(grid.cols, epsilon_per_km * grid.width_km / grid.cols))


def _losses_of_places_km(grid: Grid, distance: Distance, epsilon_per_km: float) -> FloatArray:
    """Return the loss to expect of a place in each cell: in closed form, or by the nearest cell."""
    at_one_km = _LOSS_KM_AT_ONE.get(distance.kind)
    if at_one_km is not None:
        return np.full(grid.n_cells, at_one_km / epsilon_per_km)
    return np.asarray(np.einsum("xz,xz->x", laplace_matrix(grid, epsilon_per_km), distance.matrix_km))
