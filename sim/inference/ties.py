"""Tolerances for ties and for weights without mass, the same for mechanisms and adversaries, NumPy and numba.

Compiled kernels contain these constants, and numba caches a kernel until its source file changes. After a change of
this file, also change `kernels/bayes.py` and `kernels/remap.py`.
"""

from __future__ import annotations

TIE = 1e-12
"""Costs that differ by at most this share of the total weight times the longest distance are ties."""

LOG_TIE = 1e-9
"""Log scores of paths that differ by at most this are ties."""

HALF = 0.5 - TIE
"""Share of the total weight at which the median lies; slightly below one half, so that rounding cannot break a tie."""

MASS_FLOOR = 1e-290
"""Weights whose sum does not exceed this have no mass: their products have lost precision and their halves may
round to 0."""
