"""Cloaking: report a region that contains enough people (Gruteser and Grunwald 2003)."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from sim.components.registry import component
from sim.components.spec import Count, NonNegative
from sim.errors import InvalidValue
from sim.inference.bayes import read_only
from sim.interfaces import Channel, FloatArray, IntArray
from sim.lppm.centre import centre_of
from sim.lppm.outputs import Regions
from sim.lppm.own_outputs import OwnMatrixChannel
from sim.lppm.parameters import CalibratedParameters, ShortNames, WorldSize
from sim.lppm.strength import RealisedBudget, StrengthRange
from sim.world import World
from sim.world.distance import Distance
from sim.world.grid import Grid

_ROUNDING = 1e-12
"""Tolerance when a mass is compared with a threshold."""


@component("design")
class CloakingParameters(CalibratedParameters):
    """Cloaking: reports the smallest region of a quadtree in which at least k people are expected."""

    short_names: ClassVar = ShortNames(design="Cloak", beliefs=("SP",))
    strength_name: ClassVar = "k"
    default_strength: ClassVar = 10

    kind: Literal["cloaking"] = "cloaking"
    k: Count | None = None
    """Minimum expected number of people in a region, if people are distributed as the belief (default: 10)."""
    population: Count = 1000
    """Total number of people in the world."""
    quality_budget_km: NonNegative | RealisedBudget | None = None
    """Expected quality loss in km under the mechanism's own prior. Replaces `k`: the minimum mass of a region is
    calibrated to this loss for each prior. `{realised: 0.3}` refers to the mean loss of the users in the run
    instead; with `at: 0.95`, to that of 95 % of them."""

    @model_validator(mode="after")
    def _enough_people(self) -> Self:
        if self.realised_budget is None and self.strength is not None and self.strength > self.population:
            raise InvalidValue(
                f"`k` must be at most `population`, found {self.strength} with a population of {self.population}: "
                "decrease `k` or increase `population`",
                code="k-exceeds-population",
            )
        return self

    @property
    def needs_grid(self) -> bool:
        """Whether the design needs the cells of a grid: yes."""
        return True

    @property
    def strength_range(self) -> StrengthRange:
        """The parameter that a realised budget replaces."""
        return StrengthRange(name="k", least=1, most=self.population, loss_rises=True, whole=True)

    def require_feasible(self, size: WorldSize) -> None:
        """Raise `InvalidValue` if the matrix of the channel is too large."""
        size.require_dense()

    def build(self, world: World) -> Cloaking:
        """Return the design for the grid and the quality distance of a world."""
        return Cloaking(self, grid=world.grid, distance=world.quality_distance)


class Cloaking:
    """Report a region that contains enough people: the k-anonymous cloaking of Gruteser and Grunwald 2003.

    A quadtree halves the grid in both directions down to single cells. The mechanism reports the smallest region around
    the user in which at least k of N = `population` people are expected, N prior(region) >= k, if all people are
    distributed as the belief. The service answers for the centre of the region: its cell with the smallest sum of d_Q
    from all of its cells.

    This is k-anonymity in expectation, against an adversary who shares the belief: the people actually present are not
    counted. Known weaknesses: k people in one place, or known to be elsewhere, provide no anonymity; and an adversary
    who knows the algorithm can exclude sub-regions that would have been reported themselves.

    With a budget, two neighbouring mass thresholds are mixed for each prior so that the expected loss is the budget. If
    the budget exceeds the loss of always reporting the whole grid, the whole grid is reported.
    """

    uses_prior = True

    def __init__(self, parameters: CloakingParameters, *, grid: Grid, distance: Distance) -> None:
        k = parameters.strength
        self._tree = Quadtree(grid.shape)
        self._distance = distance
        self._least_mass = None if k is None else k / parameters.population
        self._budget_km = parameters.budget_km
        self.space = Regions(self._tree.regions, tuple(map(self._centre, self._tree.regions)))
        self._losses_km = np.column_stack([distance.column_km(centre) for centre in self.space.centres])

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        if self._least_mass is not None:
            matrix = self._matrix(self._tree.smallest(self._tree.masses(prior), self._least_mass))
        else:
            matrix = self._calibrated(prior, self._budget_km or 0.0)
        return OwnMatrixChannel(matrix, space=self.space, losses_km=self._losses_km)

    def _calibrated(self, prior: FloatArray, budget_km: float) -> FloatArray:
        """Return the mixture of two mass thresholds whose loss is the budget; losses change only at region masses."""
        cells, masses = np.arange(prior.size), self._tree.masses(prior)
        finer, finer_km = self._tree.smallest(masses, 0.0), 0.0
        for least_mass in (*np.unique(masses), np.inf):  # the last one is the whole grid
            coarser = self._tree.smallest(masses, least_mass)
            coarser_km = float(prior @ self._losses_km[cells, coarser])
            if coarser_km > budget_km:
                share = (budget_km - finer_km) / (coarser_km - finer_km)
                return (1 - share) * self._matrix(finer) + share * self._matrix(coarser)
            finer, finer_km = coarser, coarser_km
        return self._matrix(finer)

    def _matrix(self, region_of: IntArray) -> FloatArray:
        matrix = np.zeros((region_of.size, len(self.space.regions)))
        matrix[np.arange(region_of.size), region_of] = 1.0
        return matrix

    def _centre(self, cells: tuple[int, ...]) -> int:
        return centre_of(cells, self._distance)


class Quadtree:
    """Regions obtained by repeatedly halving a grid in both directions, from the whole grid to single cells.

    >>> Quadtree((1, 3)).regions
    ((0, 1, 2), (0, 1), (2,), (0,), (1,))
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        rows, cols = shape
        parts, parents = [(0, rows, 0, cols)], [0]
        for place, (south, north, west, east) in enumerate(parts):
            if (north - south) * (east - west) > 1:
                halves = [
                    (low, high, left, right)
                    for low, high in _halves(south, north)
                    for left, right in _halves(west, east)
                ]
                parts += halves  # extends the list under iteration: large regions come before small ones
                parents += [place] * len(halves)
        number = np.arange(rows * cols).reshape(shape)
        self.regions = tuple(
            tuple(number[south:north, west:east].ravel().tolist()) for south, north, west, east in parts
        )
        """The cells of each region, the whole grid first."""
        self._parents = np.array(parents)
        self._members = np.zeros((len(parts), rows * cols))
        self._leaf = np.empty(rows * cols, dtype=np.int64)
        for place, cells in enumerate(self.regions):
            self._members[place, list(cells)] = 1.0
            self._leaf[list(cells)] = place

    @cached_property
    def around(self) -> IntArray:
        """The regions around each cell, from the cell itself to the whole grid, shape (n_cells, depth)."""
        chain = [self._leaf]
        while chain[-1].any():
            chain.append(self._parents[chain[-1]])
        return read_only(np.column_stack(chain))

    def masses(self, prior: FloatArray) -> FloatArray:
        """Return the mass of each region, shape (n_regions,)."""
        return np.asarray(self._members @ prior)

    def smallest(self, masses: FloatArray, least_mass: float) -> IntArray:
        """Return the smallest region around each cell with at least this mass, or the whole grid, shape (n_cells,)."""
        short = (masses[self.around] < least_mass - _ROUNDING).sum(axis=1)
        return np.asarray(self.around[np.arange(len(short)), np.minimum(short, self.around.shape[1] - 1)])


def _halves(low: int, high: int) -> list[tuple[int, int]]:
    """Split a range into two halves, the first at least as long as the second; a range of length 1 is returned."""
    middle = (low + high + 1) // 2
    return [(low, middle), (middle, high)] if high - low > 1 else [(low, high)]
