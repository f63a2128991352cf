"""The planar geometric mechanism: the planar Laplace mechanism on a lattice."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

from sim.components.registry import component
from sim.components.spec import NonNegative
from sim.lppm.calibration import ByEpsilon
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.channels.product import ProductChannel
from sim.lppm.parameters import CalibratedParameters, ShortNames, WorldSize
from sim.lppm.planar_noise import geometric_kernel, geometric_matrix
from sim.lppm.strength import RealisedBudget, StrengthRange, epsilon_range
from sim.world import World
from sim.world.distance import Distance
from sim.world.grid import Grid

Metric = Literal["euclidean", "manhattan"]


@component("design")
class PlanarGeometricParameters(CalibratedParameters):
    """Planar geometric mechanism: noise proportional to exp(-epsilon d) on the infinite lattice of cell centres."""

    short_names: ClassVar = ShortNames(design="PG", beliefs=("SP", "PEB"), alone={"remap": False})
    strength_name: ClassVar = "epsilon_per_km"
    default_strength: ClassVar = 1.0

    kind: Literal["planar_geometric"] = "planar_geometric"
    epsilon_per_km: NonNegative | None = None
    """Privacy parameter epsilon of geo-indistinguishability, per km of the distance in `metric` (default: 1)."""
    quality_budget_km: NonNegative | RealisedBudget | None = None
    """Expected quality loss in km under the mechanism's own prior. Replaces `epsilon_per_km`, which is calibrated to
    this loss for each prior. `{realised: 0.3}` refers to the mean loss of the users in the run instead; with `at:
    0.95`, to that of 95 % of them."""
    metric: Metric = "euclidean"
    """Distance of the noise and of the privacy guarantee, independent of the quality distance; `manhattan` is
    faster."""
    remap: bool = True
    """Replace each output by the cell with the smallest expected loss under its posterior. This never increases the
    expected loss and, as post-processing, keeps epsilon."""

    @property
    def needs_grid(self) -> bool:
        """Whether the design needs the cells of a grid: yes."""
        return True

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return self.remap or self.budget_km is not None

    @property
    def strength_range(self) -> StrengthRange:
        """The parameter that a realised budget replaces."""
        return epsilon_range()

    def require_feasible(self, size: WorldSize) -> None:
        """Raise `InvalidValue` if the matrix of the channel is too large: that of rows and columns is not."""
        if self.metric == "euclidean":
            size.require_dense()
        elif self.uses_prior:
            size.require_dense_unless("manhattan")

    def build(self, world: World) -> PlanarGeometric:
        """Return the design for the grid and the quality distance of a world."""
        return PlanarGeometric(self, grid=world.grid, distance=world.quality_distance)


class PlanarGeometric(ByEpsilon):
    """The planar geometric mechanism: f(z | x) ∝ exp(-epsilon d(x, z)) on the infinite lattice of cell centres.

    All cells share one normalising constant, and outputs outside the grid become the nearest cell. Therefore the
    mechanism guarantees epsilon in `metric`, while the exponential mechanism guarantees 2 epsilon. With the Manhattan
    distance it is the geometric mechanism of Ghosh et al. 2009 on each axis.

    `distance` is the quality distance d_Q.
    """

    def __init__(self, parameters: PlanarGeometricParameters, *, grid: Grid, distance: Distance) -> None:
        super().__init__(
            make=partial(_geometric, grid, parameters.metric),
            distance=distance,
            epsilon_per_km=parameters.strength,
            budget_km=parameters.budget_km,
            remap=parameters.remap,
        )


def _geometric(grid: Grid, metric: Metric, epsilon_per_km: float) -> MatrixChannel | ProductChannel:
    if metric == "euclidean":
        return MatrixChannel(geometric_matrix(grid, epsilon_per_km))
    rows = geometric_kernel(grid.rows, epsilon_per_km * grid.height_km / grid.rows)
    return ProductChannel(rows, geometric_kernel(grid.cols, epsilon_per_km * grid.width_km / grid.cols))
