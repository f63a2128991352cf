"""Synthetic movement as a Markov chain over the cells, the paper's Markov mobility model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from sim.components.files import Place
from sim.components.registry import component
from sim.components.spec import Count, Positive, Share
from sim.events import Visit
from sim.inference.bayes import distribution, read_only
from sim.interfaces import FloatArray, Generator
from sim.mobility.parameters import MobilityParameters
from sim.mobility.synthetic.city import attraction, numbered_users, pick, thresholds
from sim.world import World

if TYPE_CHECKING:
    from sim.world.locations import Locations
    from sim.world.roads.graph import Roads

BLOCK = 256
RESTART = 1e-9


@component("mobility")
class MarkovChainParameters(MobilityParameters):
    """A Markov chain over the cells: at each step, stay or move to a cell by attraction and distance."""

    endless: ClassVar[bool] = True

    kind: Literal["markov"] = "markov"
    stay: Share = 0.3
    """Probability of staying in the cell at a step."""
    reach_km: Positive = 2.0
    """Scale in km of the exponential decay of moves with distance."""
    step_s: Count = 300
    """Time between two steps in seconds."""

    def build(self, world: World, seed: int, place: Place) -> MarkovChain:  # noqa: ARG002
        """Return the model on the grid and the roads of a world."""
        return MarkovChain(self, locations=world.locations, roads=world.roads, seed=seed)


class MarkovChain:
    """Users who move every `step_s` seconds by a common Markov chain.

    The transitions are M(x'|x) = stay 1{x'=x} + (1-stay) A(x') exp(-d(x,x')/reach_km) / norm(x), where A is the
    attraction of the city, `stay` in [0, 1] and `reach_km` in (0, inf). A row-stochastic matrix `transition[from, to]`
    replaces the formula. At time 0, users are distributed by the stationary distribution of the chain, `start`.
    """

    def __init__(
        self,
        parameters: MarkovChainParameters,
        *,
        locations: Locations,
        seed: int,
        roads: Roads | None = None,
        transition: FloatArray | None = None,
    ) -> None:
        self.step_s = parameters.step_s
        if transition is None:
            life = attraction(locations, seed=seed, roads=roads)
            matrix, start = gravity(locations, life, stay=parameters.stay, reach_km=parameters.reach_km)
        else:
            matrix = _over_cells(transition, locations.n_cells)
            start = stationary(matrix)
        self.transition = read_only(matrix)
        self.start = read_only(start)
        self._rows = thresholds(self.transition)
        self._first = thresholds(self.start)

    def users(self, count: int | None = None) -> Sequence[str]:
        """Return the ids of the first `count` users (default: 10)."""
        return numbered_users(count)

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:  # noqa: ARG002
        """Yield the cell at every step, infinitely many; users differ only by `rng`."""
        cell = pick(self._first, rng.random())
        for block in count(0, BLOCK):
            for step, uniform in enumerate(rng.random(BLOCK).tolist(), start=block):
                yield Visit(step * self.step_s, cell)
                cell = pick(self._rows[cell], uniform)


def gravity(locations: Locations, life: FloatArray, *, stay: float, reach_km: float) -> tuple[FloatArray, FloatArray]:
    """Return the transition matrix for a city with this attraction, and its stationary distribution.

    The chain is reversible with pi(x) proportional to A(x) norm(x), so no system of equations must be solved.
    """
    away_km = np.hypot(locations.x_km[:, None] - locations.x_km, locations.y_km[:, None] - locations.y_km)
    # Distances are relative to the nearest cell with roads, so that no row underflows to zero.
    nearest_km = away_km[:, life > 0].min(axis=1, keepdims=True)
    pull = life * np.exp((nearest_km - away_km) / reach_km)
    norm = pull.sum(axis=1)
    matrix = (1.0 - stay) * pull / norm[:, None]
    matrix[np.diag_indices(locations.n_cells)] += stay
    start = life * norm
    return matrix, start / start.sum()


def stationary(transition: FloatArray) -> FloatArray:
    """Return pi with pi M = pi, shape (n_cells,), for any row-stochastic matrix.

    The solution is that of the chain that restarts at a uniform cell with probability 1e-9 at each step. It therefore
    exists for reducible and periodic chains too: the long-run average from a uniform start.

    >>> stationary(np.array([[0.0, 1.0], [0.5, 0.5]])).round(6)
    array([0.333333, 0.666667])
    """
    n_cells = len(transition)
    system = np.eye(n_cells) - (1.0 - RESTART) * transition.T
    solution = np.linalg.solve(system, np.full(n_cells, RESTART / n_cells))
    solution = np.maximum(solution, 0.0)
    return np.asarray(solution / solution.sum(), dtype=np.float64)


def _over_cells(transition: FloatArray, n_cells: int) -> FloatArray:
    """Check that the rows of a matrix are distributions over the cells, and return it."""
    if np.shape(transition) != (n_cells, n_cells):
        raise ValueError(f"transition must have shape {(n_cells, n_cells)}, got {np.shape(transition)}")
    return distribution(transition, "transition")
