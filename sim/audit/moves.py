"""Transitions between the places of an attack, counted in the past."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array

from sim.audit.attack_grid import AttackGrid
from sim.audit.displacement import Sample
from sim.interfaces import FloatArray, IntArray

_PSEUDO_VISITS = 2.0
"""Weight of the profile in each row of the transitions."""
LONGEST_GAP_S = 6 * 3600.0


@dataclass(frozen=True)
class Moves:
    """Transitions counted in the own past; each row is completed by the profile."""

    source: IntArray
    target: IntArray
    visits: FloatArray
    """Number of counted transitions from each cell."""
    profile: FloatArray

    @classmethod
    def of(cls, past: Sample, grid: AttackGrid, profile: FloatArray) -> Moves:
        """Count the transitions between consecutive rows without a long gap."""
        cell = grid.cell_of(past)
        near = past.follows[1:] & (np.diff(past.time_s) <= LONGEST_GAP_S)
        source, target = cell[:-1][near], cell[1:][near]
        return cls(source, target, np.bincount(source, minlength=profile.size).astype(float), profile)

    @cached_property
    def _counts(self) -> csr_array:
        size = self.profile.size
        return coo_array((np.ones(self.source.size), (self.source, self.target)), (size, size)).tocsr()

    def after(self, gap_s: float) -> Callable[[IntArray], FloatArray]:
        """Return the function of the rows of the transition matrix after a gap; a long one leads to the profile."""
        if gap_s > LONGEST_GAP_S:
            return lambda sources: np.broadcast_to(self.profile, (sources.size, self.profile.size))
        return self.rows

    def rows(self, sources: IntArray) -> FloatArray:
        """Return rows of the transition matrix, shape (n_sources, n_cells)."""
        total = (self.visits[sources] + _PSEUDO_VISITS)[:, None]
        return np.asarray((self._counts[sources].toarray() + _PSEUDO_VISITS * self.profile) / total)

    def predict(self, posterior: FloatArray) -> FloatArray:
        """Return the distribution of the next cell."""
        scaled = posterior / (self.visits + _PSEUDO_VISITS)
        moved = np.bincount(self.target, scaled[self.source], minlength=posterior.size)
        return np.asarray(moved + _PSEUDO_VISITS * scaled.sum() * self.profile)
