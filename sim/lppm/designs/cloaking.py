"""Cloaking: report a region with enough people in it (Gruteser and Grunwald 2003)."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from sim.components.registry import component
from sim.components.spec import Count, NonNegative
from sim.inference.bayes import read_only
from sim.interfaces import Channel, FloatArray, IntArray
from sim.lppm.centre import centre_of
from sim.lppm.outputs import Regions
from sim.lppm.own_outputs import OwnMatrixChannel
from sim.lppm.parameters import CalibratedParameters, ShortNames
from sim.world import World
from sim.world.distance import Distance
from sim.world.grid import Grid

_ROUNDING = 1e-12
"""A mass that is short of a threshold by no more reaches it."""


@component("design")
class CloakingParameters(CalibratedParameters):
    """Cloaking: reports the smallest region of a repeatedly halved plane in which k people are expected."""

    short_names: ClassVar = ShortNames(design="Cloak", beliefs=("SP",))
    strength_name: ClassVar = "k"
    default_strength: ClassVar = 10

    kind: Literal["cloaking"] = "cloaking"
    k: Count | None = None
    """Number of people, distributed as the belief says, to expect in a region; 10 unless it or a budget is given."""
    population: Count = 1000
    """Number of people in all."""
    quality_budget_km: NonNegative | None = None
    """Instead of k: set the least mass of a region, for each prior, to this expected loss on the mechanism's model."""

    @model_validator(mode="after")
    def _enough_people(self) -> Self:
        if self.strength is not None and self.strength > self.population:
            raise ValueError(
                f"`k` must be at most `population`, found {self.strength} of {self.population} people: "
                "take less of the one or more of the other"
            )
        return self

    def build(self, world: World) -> Cloaking:
        """Return the design for the grid and the quality distance of a world."""
        return Cloaking(self, grid=world.grid, distance=world.quality_distance)


class Cloaking:
    """Report a region with enough people in it: k-anonymous cloaking of Gruteser and Grunwald 2003.

    The plane is halved in both directions again and again, down to single cells. Reported is the smallest part around
    the user in which at least k of `population` people are to be expected, N prior(part) >= k, if all of them are
    spread as the belief says. The service answers for the centre of the region: the cell of it that has the least sum
    of d_Q from all of its cells.

    This is k-anonymity in expectation and against whoever shares the belief: nobody counts who is really there. Known
    weaknesses: k people in one place, or who are all known to be elsewhere, hide nobody; and who knows the algorithm
    rules out the parts of a region that would have been reported by themselves.

    With a budget the least mass of a region is set
    for each prior: two neighbouring thresholds are mixed so that the expected loss is the budget. A budget beyond what
    the whole plane costs cannot be spent.
    """

    uses_prior = True

    def __init__(self, parameters: CloakingParameters, *, grid: Grid, distance: Distance) -> None:
        k = parameters.strength
        self._tree = Quadtree(grid.shape)
        self._distance = distance
        self._least_mass = None if k is None else k / parameters.population
        self._budget_km = parameters.budget_km
        self.space = Regions(self._tree.regions, tuple(map(self._centre, self._tree.regions)))
        self._losses_km = distance.matrix_km[:, list(self.space.centres)]

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        if self._least_mass is not None:
            matrix = self._matrix(self._tree.smallest(self._tree.masses(prior), self._least_mass))
        else:
            matrix = self._calibrated(prior, self._budget_km or 0.0)
        return OwnMatrixChannel(matrix, space=self.space, losses_km=self._losses_km)

    def _calibrated(self, prior: FloatArray, budget_km: float) -> FloatArray:
        """Return the mixture of two thresholds that spends the budget: losses change at the masses of regions alone."""
        cells, masses = np.arange(prior.size), self._tree.masses(prior)
        finer, finer_km = self._tree.smallest(masses, 0.0), 0.0
        for least_mass in (*np.unique(masses), np.inf):  # the last is the whole plane
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
    """The parts that come of halving a grid in both directions again and again, from the whole to single cells.

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
                parts += halves  # this is the list that is gone through: small ones come after large ones
                parents += [place] * len(halves)
        number = np.arange(rows * cols).reshape(shape)
        self.regions = tuple(
            tuple(number[south:north, west:east].ravel().tolist()) for south, north, west, east in parts
        )
        """The cells of each part, the whole first."""
        self._parents = np.array(parents)
        self._members = np.zeros((len(parts), rows * cols))
        self._leaf = np.empty(rows * cols, dtype=np.int64)
        for place, cells in enumerate(self.regions):
            self._members[place, list(cells)] = 1.0
            self._leaf[list(cells)] = place

    @cached_property
    def around(self) -> IntArray:
        """The parts around each cell, from itself up to the whole, shape (n_cells, depth)."""
        chain = [self._leaf]
        while chain[-1].any():
            chain.append(self._parents[chain[-1]])
        return read_only(np.column_stack(chain))

    def masses(self, prior: FloatArray) -> FloatArray:
        """Return the mass of each part, shape (n_parts,)."""
        return np.asarray(self._members @ prior)

    def smallest(self, masses: FloatArray, least_mass: float) -> IntArray:
        """Return the smallest part around each cell that has such a mass or more, shape (n_cells,); or the whole."""
        short = (masses[self.around] < least_mass - _ROUNDING).sum(axis=1)
        return np.asarray(self.around[np.arange(len(short)), np.minimum(short, self.around.shape[1] - 1)])


def _halves(low: int, high: int) -> list[tuple[int, int]]:
    """Cut a range into two, the first no shorter than the second; one that cannot be cut stays."""
    middle = (low + high + 1) // 2
    return [(low, middle), (middle, high)] if high - low > 1 else [(low, high)]
