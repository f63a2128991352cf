"""Regularisation of an estimated profile: a Dirichlet prior and a smoothing kernel."""

from __future__ import annotations

import numpy as np

from sim.components.spec import NonNegative, Positive, Spec
from sim.interfaces import FloatArray

EVEN_SHARE = 1e-3
"""Share of the centre of a prior that is spread over all cells, so that no place becomes impossible."""


class Regularisation(Spec):
    """What keeps the estimate of a profile from saying more than the reports do."""

    prior_reports: Positive = 3.0
    """How many reports the initial profile is worth, as the centre of a Dirichlet prior."""
    smooth_km: NonNegative = 0.0
    """Scale of the kernel exp(-d_Q / smooth_km) that spreads each place over its neighbours; 0 for none."""


CANDIDATES = (
    Regularisation(prior_reports=1.0),
    Regularisation(prior_reports=3.0),
    Regularisation(prior_reports=10.0),
    Regularisation(prior_reports=3.0, smooth_km=0.5),
)
"""The candidates of `regularise: cross_validated`."""


def lifted(profile: FloatArray) -> FloatArray:
    """Return the profile, or each row of several, with `EVEN_SHARE` of it spread over all cells."""
    return np.asarray((1 - EVEN_SHARE) * profile + EVEN_SHARE / profile.shape[-1])
