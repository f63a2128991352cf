"""How ties are broken and when weights have no mass: one rule for mechanisms and adversaries, in NumPy and numba.

Compiled code contains these numbers, and numba caches it until the file of a kernel changes. A change here needs a
change of `kernels/bayes.py` and `kernels/remap.py`.
"""

from __future__ import annotations

TIE = 1e-12
"""Costs that differ by less, as a share of the total weight times the longest distance, are a tie."""

HALF = 0.5 - TIE
"""The share of the total that makes a median; a hair under one half, so that rounding cannot break a tie."""

MASS_FLOOR = 1e-290
"""Weights that sum to no more have no mass: their products have lost their digits, and half of them rounds to 0."""
