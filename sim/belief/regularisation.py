"""Regularisation of an estimated profile: a Dirichlet prior and a smoothing kernel."""

from __future__ import annotations

import numpy as np

from sim.components.spec import NonNegative, Positive, Spec
from sim.interfaces import FloatArray

EVEN_SHARE = 1e-3
"""Share of the centre of a prior that is spread evenly over all cells, so that no cell is impossible."""


class Regularisation(Spec):
    """Regularisation of an estimated profile against overfitting: a Dirichlet prior and optional smoothing."""

    prior_reports: Positive = 3.0
    """Weight of the Dirichlet prior centred on the initial profile, in reports."""
    smooth_km: NonNegative = 0.0
    """Scale in km of the kernel exp(-d_Q / smooth_km) that smooths the profile over neighbouring cells; 0: no
    smoothing."""


CANDIDATES = (
    Regularisation(prior_reports=1.0),
    Regularisation(prior_reports=3.0),
    Regularisation(prior_reports=10.0),
    Regularisation(prior_reports=3.0, smooth_km=0.5),
)
"""The candidates of `regularise: cross_validated`."""


def lifted(profile: FloatArray) -> FloatArray:
    """Return a profile, or each row of a matrix, with the share `EVEN_SHARE` spread evenly over all cells."""
    return np.asarray((1 - EVEN_SHARE) * profile + EVEN_SHARE / profile.shape[-1])
