"""The empirical displacement kernel: where reports are relative to the true position, without a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.audit.displacement import Sample
from sim.interfaces import FloatArray, IntArray

_BINS = 31
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True, eq=False)
class Kernel:
    """Histogram of displacements."""

    edges_m: FloatArray
    """Edges of the bins on both axes, shape (n_bins + 1,)."""
    counts: IntArray
    """Number of reports [to the north, to the east], shape (n_bins, n_bins)."""
    beyond: int
    """Number of reports outside the edges."""
    distance_quantiles_m: dict[float, float]
    mean_distance_m: float


def empirical_kernel(sample: Sample) -> Kernel:
    """Return the histogram of the displacements of a sample, up to their 99 % quantile."""
    kept = sample.rows(sample.sent)
    distance = kept.distance_m
    reach = max(float(np.quantile(np.maximum(np.abs(kept.dx_m), np.abs(kept.dy_m)), 0.99)), 1.0)
    edges = np.linspace(-reach, reach, _BINS + 1)
    counts, _, _ = np.histogram2d(kept.dy_m, kept.dx_m, bins=(edges, edges))
    whole = counts.astype(np.int64)
    quantiles = {q: float(np.quantile(distance, q)) for q in _QUANTILES}
    return Kernel(edges, whole, len(kept) - int(whole.sum()), quantiles, float(distance.mean()))
