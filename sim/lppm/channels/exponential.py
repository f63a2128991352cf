"""The exponential mechanism in the form that its distance allows."""

from __future__ import annotations

from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.channels.planar import PlanarExponentialChannel
from sim.lppm.channels.product import MATRIX_CELLS, ExponentialChannel, exponential_kernel
from sim.lppm.channels.scattered import ScatteredExponentialChannel
from sim.world.distance import Distance
from sim.world.distances.euclidean import EuclideanDistance
from sim.world.distances.manhattan import ManhattanDistance


def exponential(
    distance: Distance, epsilon_per_km: float
) -> ExponentialChannel | MatrixChannel | PlanarExponentialChannel | ScatteredExponentialChannel:
    """Return the exponential mechanism for any distance, without a matrix if the distance allows it."""
    if isinstance(distance, ManhattanDistance):
        return ExponentialChannel(distance=distance, epsilon_per_km=epsilon_per_km)
    if isinstance(distance, EuclideanDistance) and distance.n_cells > MATRIX_CELLS:
        if distance.planar is not None:
            return PlanarExponentialChannel(distance.planar, epsilon_per_km=epsilon_per_km)
        return ScatteredExponentialChannel(distance, epsilon_per_km=epsilon_per_km)
    return MatrixChannel(exponential_kernel(distance.matrix_km, epsilon_per_km))
