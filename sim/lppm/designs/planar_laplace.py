"""The planar Laplace mechanism (Andrés et al. 2013, Sect. 4).

It promises an epsilon: f(z | x) <= exp(epsilon d(x, x')) f(z | x') for all cells x, x' and outputs z. A remap, being
post-processing, keeps it and costs the user less (Chatzikokolakis et al. 2017).
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import ClassVar, Literal, NoReturn, Self

import numpy as np
from pydantic import model_validator

from sim.components.registry import component
from sim.components.spec import NonNegative
from sim.interfaces import Channel, FloatArray, Generator, IntArray
from sim.lppm.calibration import ByEpsilon, epsilon_that_loses
from sim.lppm.channel import MatrixChannel
from sim.lppm.epsilon import steepest_per_km
from sim.lppm.outputs import Points
from sim.lppm.parameters import CalibratedParameters, ShortNames
from sim.lppm.planar_noise import Truncate, laplace_matrix
from sim.world import World
from sim.world.distance import Distance
from sim.world.distances.euclidean import euclidean
from sim.world.grid import Grid

EPSILON_OF_PLACES_PER_KM = (1e-3, 100.0)
"""Places are told to the metre: beyond, that would be most of the noise. The other end is noise around the globe."""

_SQUARE_KM2 = 1e-6
_LOSS_KM_AT_ONE = {"euclidean": 2.0, "manhattan": 8 / math.pi}
"""The loss of places at epsilon 1: the mean radius is 2, and on average |cos| + |sin| is 4 / pi."""


@component("design")
class PlanarLaplaceParameters(CalibratedParameters):
    """Planar Laplace mechanism: reports the cell of a place drawn with a density that falls as exp(-epsilon r)."""

    short_names: ClassVar = ShortNames(design="PL", beliefs=("SP", "PEB"), alone={"remap": False})
    strength_name: ClassVar = "epsilon_per_km"
    default_strength: ClassVar = 1.0

    kind: Literal["planar_laplace"] = "planar_laplace"
    epsilon_per_km: NonNegative | None = None
    """Its geo-indistinguishability in the Euclidean distance; 1 unless it or a budget is given."""
    quality_budget_km: NonNegative | None = None
    """Instead of epsilon: calibrate, for each prior, to this expected loss on the mechanism's own model."""
    discretise: bool = True
    """Report cells. If not, places to the metre, also outside the grid, with epsilon in [0.001, 100]."""
    truncate: Truncate = "nearest"
    """Outside the grid, report the nearest cell, which keeps epsilon, or draw again, which keeps 2 epsilon only."""
    remap: bool | None = None
    """Replace each output by the best one for its posterior, which keeps epsilon; by default cells are, places not."""

    @model_validator(mode="after")
    def _places(self) -> Self:
        if self.discretise:
            return self
        if self.remap or self.truncate != "nearest":
            raise ValueError(
                "places are neither remapped nor truncated, found `discretise: false` with "
                f"{'`remap: true`' if self.remap else f'`truncate: {self.truncate}`'}: leave one of them out"
            )
        least, most = EPSILON_OF_PLACES_PER_KM
        if self.epsilon_per_km is not None and not least <= self.epsilon_per_km <= most:
            raise ValueError(
                f"with `discretise: false` `epsilon_per_km` must be in [{least}, {most:g}], found {self.epsilon_per_km}"
            )
        if self.quality_budget_km == 0:
            raise ValueError("with `discretise: false` `quality_budget_km` must be positive, found 0")
        return self

    @property
    def remapped(self) -> bool:
        """Whether outputs are remapped."""
        return self.discretise if self.remap is None else self.remap

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return self.remapped or self.budget_km is not None

    @property
    def countless(self) -> bool:
        """Whether there may be too many outputs to list; then there are no expected errors."""
        return not self.discretise

    def build(self, world: World) -> PlanarLaplace:
        """Return the design for the grid and the quality distance of a world."""
        return PlanarLaplace(self, grid=world.grid, distance=world.quality_distance)


class PlanarLaplace:
    """The planar Laplace mechanism: a place at a distance r from where one is has a density ∝ exp(-epsilon r).

    Andrés et al. 2013, Sect. 4. It promises epsilon in the Euclidean distance. As a rule a place is told as its cell,
    and one outside the grid as the nearest cell: with exact integrals over cells this is post-processing of the place
    and keeps epsilon as it is, with no correction for a finite precision. `truncate` `renormalise` draws again what
    falls outside, which promises 2 epsilon only. With `discretise` False outputs are places to the metre, neither
    truncated nor remapped.

    `distance` is the quality distance d_Q.
    """

    def __init__(self, parameters: PlanarLaplaceParameters, *, grid: Grid, distance: Distance) -> None:
        self._design: ByEpsilon | _LaplacePlaces
        if parameters.discretise:
            self._design = ByEpsilon(
                make=partial(_laplace, grid, parameters.truncate),
                distance=distance,
                epsilon_per_km=parameters.strength,
                budget_km=parameters.budget_km,
                remap=parameters.remapped,
            )
        else:
            self._design = _LaplacePlaces(grid, distance, parameters.strength, parameters.budget_km)
        self.uses_prior = self._design.uses_prior
        self.space = None if parameters.discretise else Points(grid)
        """What outputs stand for, where they are places."""

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        return self._design(prior)


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

    def __init__(self, grid: Grid, distance: Distance, epsilon_per_km: float | None, budget_km: float | None) -> None:
        at_one_km = _LOSS_KM_AT_ONE.get(distance.kind)
        if budget_km is not None and at_one_km is not None:
            epsilon_per_km = at_one_km / budget_km
        if epsilon_per_km is not None:
            _require_places(epsilon_per_km, budget_km)
        self.uses_prior = epsilon_per_km is None
        self._grid, self._distance, self._budget_km = grid, distance, budget_km
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


def _losses_of_places_km(grid: Grid, distance: Distance, epsilon_per_km: float) -> FloatArray:
    """Return the loss to expect of a place in each cell: in closed form, or by the nearest cell."""
    at_one_km = _LOSS_KM_AT_ONE.get(distance.kind)
    if at_one_km is not None:
        return np.full(grid.n_cells, at_one_km / epsilon_per_km)
    return np.asarray(np.einsum("xz,xz->x", laplace_matrix(grid, epsilon_per_km), distance.matrix_km))
