"""The planar Laplace mechanism (Andrés et al. 2013, Sect. 4).

It guarantees an epsilon: f(z | x) <= exp(epsilon d(x, x')) f(z | x') for all cells x, x' and outputs z. A remap is
post-processing: it keeps epsilon and lowers the user's loss (Chatzikokolakis et al. 2017).
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import ClassVar, Literal, NoReturn, Self

import numpy as np
from pydantic import model_validator

from sim.components.registry import component
from sim.components.spec import NonNegative
from sim.errors import InvalidValue
from sim.interfaces import Channel, FloatArray, Generator, IntArray
from sim.lppm.calibration import ByEpsilon, epsilon_for_loss
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.epsilon import steepest_per_km
from sim.lppm.outputs import Points
from sim.lppm.parameters import CalibratedParameters, ShortNames, WorldSize
from sim.lppm.place_loss import loss_at_km
from sim.lppm.planar_noise import Truncate, laplace_matrix
from sim.lppm.strength import RealisedBudget, StrengthRange, epsilon_range
from sim.world import World
from sim.world.distance import Distance
from sim.world.distances.euclidean import euclidean
from sim.world.grid import require_grid
from sim.world.locations import Locations

EPSILON_OF_POINTS_PER_KM = (1e-3, 100.0)
"""Allowed epsilon of reported points: below, noise spans the globe; above, rounding to metres exceeds the noise."""

_SQUARE_KM2 = 1e-6
_LOSS_KM_AT_ONE = {"euclidean": 2.0, "manhattan": 8 / math.pi}
"""Expected loss in km of reported points at epsilon 1: the mean radius is 2, the mean of |cos| + |sin| is 4 / pi."""


@component("design")
class PlanarLaplaceParameters(CalibratedParameters):
    """Planar Laplace mechanism: reports the cell of a point drawn with a density proportional to exp(-epsilon r)."""

    short_names: ClassVar = ShortNames(design="PL", beliefs=("SP", "PEB"), alone={"remap": False})
    strength_name: ClassVar = "epsilon_per_km"
    default_strength: ClassVar = 1.0
    without_grid: ClassVar = "`discretise: false`, which reports points of the plane"

    kind: Literal["planar_laplace"] = "planar_laplace"
    epsilon_per_km: NonNegative | None = None
    """Privacy parameter epsilon of geo-indistinguishability, per km of Euclidean distance (default: 1)."""
    quality_budget_km: NonNegative | RealisedBudget | None = None
    """Expected quality loss in km under the mechanism's own prior. Replaces `epsilon_per_km`, which is calibrated to
    this loss for each prior. `{realised: 0.3}` refers to the mean loss of the users in the run instead; with `at:
    0.95`, to that of 95 % of them."""
    discretise: bool = True
    """Report cells. If false, report points rounded to metres, which may lie outside the grid; `epsilon_per_km` must
    then be in [0.001, 100]."""
    truncate: Truncate = "nearest"
    """Treatment of points outside the grid: report the nearest cell, which keeps epsilon, or draw again
    (`renormalise`), which guarantees 2 epsilon only."""
    remap: bool | None = None
    """Replace each output by the cell with the smallest expected loss under its posterior; this keeps epsilon
    (default: true for cells; points cannot be remapped)."""

    @model_validator(mode="after")
    def _points(self) -> Self:
        if self.discretise:
            return self
        if self.remap or self.truncate != "nearest":
            raise InvalidValue(
                "`discretise: false` excludes `remap: true` and `truncate: renormalise`, found "
                f"{'`remap: true`' if self.remap else f'`truncate: {self.truncate}`'}: remove one of the two keys",
                code="exclusive-keys",
            )
        least, most = EPSILON_OF_POINTS_PER_KM
        if self.epsilon_per_km is not None and not least <= self.epsilon_per_km <= most:
            raise InvalidValue(
                f"with `discretise: false`, `epsilon_per_km` must be in [{least}, {most:g}], "
                f"found {self.epsilon_per_km}",
                code="epsilon-out-of-range",
            )
        if self.quality_budget_km == 0:
            raise InvalidValue(
                "with `discretise: false`, `quality_budget_km` must be positive, found 0", code="infeasible-budget"
            )
        return self

    @property
    def remapped(self) -> bool:
        """Whether outputs are remapped, with the default resolved."""
        return self.discretise if self.remap is None else self.remap

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return self.remapped or self.budget_km is not None

    @property
    def countless(self) -> bool:
        """Whether there may be too many outputs to enumerate; then expected errors are not computed."""
        return not self.discretise

    @property
    def needs_grid(self) -> bool:
        """Whether the design needs the cells of a grid: probabilities are integrals over them."""
        return self.discretise

    @property
    def strength_range(self) -> StrengthRange:
        """The parameter that a realised budget replaces."""
        return epsilon_range() if self.discretise else epsilon_range(*EPSILON_OF_POINTS_PER_KM)

    def require_feasible(self, size: WorldSize) -> None:
        """Raise `InvalidValue` if the matrix of the channel is too large; points need one for a budget only."""
        if self.discretise:
            size.require_dense()
        elif self.budget_km is not None:
            size.require_dense_unless(*_LOSS_KM_AT_ONE)

    def build(self, world: World) -> PlanarLaplace:
        """Return the design for the grid and the quality distance of a world."""
        return PlanarLaplace(self, locations=world.locations, distance=world.quality_distance)


class PlanarLaplace:
    """The planar Laplace mechanism: the density of a point at distance r from the true location is ∝ exp(-epsilon r).

    Andrés et al. 2013, Sect. 4. It guarantees epsilon in the Euclidean distance. By default the report is the cell of
    the point, or the nearest cell if the point is outside the grid. Probabilities are exact integrals over cells, so
    this is post-processing of the point and keeps epsilon without a correction for finite precision. With `truncate`
    `renormalise`, points outside the grid are drawn again, which guarantees 2 epsilon only. With `discretise` False the
    outputs are points rounded to metres, neither truncated nor remapped.

    `distance` is the quality distance d_Q.
    """

    def __init__(self, parameters: PlanarLaplaceParameters, *, locations: Locations, distance: Distance) -> None:
        self._design: ByEpsilon | _LaplacePoints
        if parameters.discretise:
            self._design = ByEpsilon(
                make=partial(_laplace, locations, parameters.truncate),
                distance=distance,
                epsilon_per_km=parameters.strength,
                budget_km=parameters.budget_km,
                remap=parameters.remapped,
            )
        else:
            self._design = _LaplacePoints(locations, distance, parameters.strength, parameters.budget_km)
        self.uses_prior = self._design.uses_prior
        self.space = None if parameters.discretise else Points(locations)
        """Output space if outputs are points; None if they are cells."""

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        return self._design(prior)


class LaplacePointsChannel:
    """The planar Laplace mechanism whose outputs are points rounded to metres, too many to enumerate.

    The probability of a point is approximated by its density times one square metre.
    """

    countless = True

    def __init__(self, *, locations: Locations, distance: Distance, epsilon_per_km: float) -> None:
        self.space = Points(locations)
        self.epsilon_per_km = epsilon_per_km
        self.n_cells, self.n_outputs = locations.n_cells, self.space.count
        self._locations, self._distance = locations, distance

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw a point: a uniform direction, and a distance from a gamma distribution of shape 2."""
        angle, radius_km = rng.random() * 2 * math.pi, rng.gamma(2, 1 / self.epsilon_per_km)
        locations = self._locations
        return self.space.output(
            locations.x_km[cell] + radius_km * math.cos(angle), locations.y_km[cell] + radius_km * math.sin(angle)
        )

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .)."""
        east_km, north_km = self._away_km(output)
        density = self.epsilon_per_km**2 / (2 * math.pi) * np.exp(-self.epsilon_per_km * np.hypot(east_km, north_km))
        return np.asarray(density * _SQUARE_KM2)

    def loss_of_km(self, cell: int, output: int) -> float:
        """Return d_Q in km between the centre of a cell and a point, or the point's cell if d_Q is between cells."""
        return loss_at_km(self._locations, self._distance, cell, *self.space.place_km(output))

    def expected_loss_of_km(self, cell: int) -> float:
        """Return the expected loss in km in a cell."""
        return float(self._losses_km[cell])

    def epsilon_in_per_km(self, distance: Distance) -> float:
        """Return the exact epsilon per km of any distance.

        At points far beyond two cells, the log-ratio of the densities reaches epsilon times their Euclidean distance.
        """
        return steepest_per_km(self.epsilon_per_km * euclidean(self._locations).matrix_km, distance.matrix_km)

    def row(self, cell: int) -> FloatArray:  # noqa: ARG002
        """Raise an error: there are too many outputs."""
        self._refuse()

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Raise an error: there are too many outputs."""
        self._refuse()

    def matrix(self) -> FloatArray:
        """Raise an error: there are too many outputs."""
        self._refuse()

    def _away_km(self, output: int) -> tuple[FloatArray, FloatArray]:
        x_km, y_km = self.space.place_km(output)
        return x_km - self._locations.x_km, y_km - self._locations.y_km

    @cached_property
    def _losses_km(self) -> FloatArray:
        return _losses_of_points_km(self._locations, self._distance, self.epsilon_per_km)

    def _refuse(self) -> NoReturn:
        raise InvalidValue(
            "too many outputs to enumerate: call `likelihood` of one point, or set discretise: true",
            code="too-many-outputs",
        )


class _LaplacePoints:
    """Design with points as outputs; its channel depends on the prior only for a budget in a distance between cells."""

    def __init__(
        self, locations: Locations, distance: Distance, epsilon_per_km: float | None, budget_km: float | None
    ) -> None:
        at_one_km = _LOSS_KM_AT_ONE.get(distance.kind)
        if budget_km is not None and at_one_km is not None:
            epsilon_per_km = at_one_km / budget_km
        if epsilon_per_km is not None:
            _require_range(epsilon_per_km, budget_km)
        self.uses_prior = epsilon_per_km is None
        self._locations, self._distance, self._budget_km = locations, distance, budget_km
        self._channel = None if epsilon_per_km is None else self._of(epsilon_per_km)

    def __call__(self, prior: FloatArray) -> Channel:
        if self._channel is not None:
            return self._channel
        assert self._budget_km is not None

        def loss_km(epsilon_per_km: float) -> float:
            return float(prior @ _losses_of_points_km(self._locations, self._distance, epsilon_per_km))

        # A budget that cannot be reached gives the smallest epsilon.
        epsilon_per_km = max(epsilon_for_loss(loss_km, self._budget_km), EPSILON_OF_POINTS_PER_KM[0])
        _require_range(epsilon_per_km, self._budget_km)
        return self._of(epsilon_per_km)

    def _of(self, epsilon_per_km: float) -> LaplacePointsChannel:
        return LaplacePointsChannel(locations=self._locations, distance=self._distance, epsilon_per_km=epsilon_per_km)


def _require_range(epsilon_per_km: float, budget_km: float | None) -> None:
    least, most = EPSILON_OF_POINTS_PER_KM
    if not least <= epsilon_per_km <= most:
        cause = "" if budget_km is None else f", required by quality_budget_km {budget_km:g}: choose another budget"
        raise InvalidValue(
            f"with `discretise: false`, `epsilon_per_km` must be in [{least}, {most:g}], got {epsilon_per_km:g}{cause}",
            code="epsilon-out-of-range",
        )


def _laplace(locations: Locations, truncate: Truncate, epsilon_per_km: float) -> MatrixChannel:
    return MatrixChannel(laplace_matrix(require_grid(locations), epsilon_per_km, truncate))


def _losses_of_points_km(locations: Locations, distance: Distance, epsilon_per_km: float) -> FloatArray:
    """Return the expected loss in km of a reported point in each cell: in closed form, or by the nearest cell."""
    at_one_km = _LOSS_KM_AT_ONE.get(distance.kind)
    if at_one_km is not None:
        return np.full(locations.n_cells, at_one_km / epsilon_per_km)
    return np.asarray(
        np.einsum("xz,xz->x", laplace_matrix(require_grid(locations), epsilon_per_km), distance.matrix_km)
    )
