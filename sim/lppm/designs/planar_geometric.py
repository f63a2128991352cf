"""The planar geometric mechanism: the planar Laplace mechanism on a lattice."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

from sim.components.registry import component
from sim.components.spec import NonNegative
from sim.lppm.calibration import ByEpsilon
from sim.lppm.channel import MatrixChannel, ProductChannel
from sim.lppm.parameters import CalibratedParameters, ShortNames
from sim.lppm.planar_noise import geometric_kernel, geometric_matrix
from sim.world import World
from sim.world.distance import Distance
from sim.world.grid import Grid

Metric = Literal["euclidean", "manhattan"]


@component("design")
class PlanarGeometricParameters(CalibratedParameters):
    """Planar geometric mechanism: exp(-epsilon d) on the infinite lattice of cells, the nearest cell if outside."""

    short_names: ClassVar = ShortNames(design="PG", beliefs=("SP", "PEB"), alone={"remap": False})
    strength_name: ClassVar = "epsilon_per_km"
    default_strength: ClassVar = 1.0

    kind: Literal["planar_geometric"] = "planar_geometric"
    epsilon_per_km: NonNegative | None = None
    """Its geo-indistinguishability in `metric`; 1 unless it or a budget is given."""
    quality_budget_km: NonNegative | None = None
    """Instead of epsilon: calibrate, for each prior, to this expected loss on the mechanism's own model."""
    metric: Metric = "euclidean"
    """The distance d of the noise and of the promise; whatever d_Q is. Manhattan is the faster one."""
    remap: bool = True
    """Replace each output by the best one for its posterior: never worse for the user, no worse for privacy."""

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return self.remap or self.budget_km is not None

    def build(self, world: World) -> PlanarGeometric:
        """Return the design for the grid and the quality distance of a world."""
        return PlanarGeometric(self, grid=world.grid, distance=world.quality_distance)


class PlanarGeometric(ByEpsilon):
    """The planar geometric mechanism: f(z | x) ∝ exp(-epsilon d(x, z)) on the endless lattice of the cells' centres.

    All cells share one normaliser, and what lies outside the grid goes to the nearest cell. So it promises epsilon in
    its `metric`, where the exponential mechanism promises 2 epsilon. In the Manhattan distance it is the geometric
    mechanism of Ghosh et al. 2009 on each axis.

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
