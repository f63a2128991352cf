"""The small world in which components are checked, and the observations they are checked with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sim.attack.parameters import AttackContext, AttackParameters, StatisticsOf
from sim.belief.parameters import BeliefParameters
from sim.checks.requirements import ContractBroken
from sim.components.files import Place
from sim.components.registry import Parameters
from sim.events import Visit
from sim.interfaces import FloatArray
from sim.lppm.channels.exponential import exponential
from sim.lppm.parameters import DesignParameters
from sim.mobility.demand.parameters import DemandParameters
from sim.mobility.parameters import MobilityParameters
from sim.mobility.statistics import Statistics, statistics
from sim.mobility.traces import LONGEST, Trace
from sim.rng import stream
from sim.world import World
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from sim.world.locations import KM_PER_DEGREE
from sim.world.roads.lattice import lattice

MOST_VISITS = 100_000
"""Largest number of visits that a demand may consume; one that needs more is not lazy."""


class Bench:
    """A world of 3 x 4 cells in Paris with roads, the statistics of one recorded user, and a channel.

    `most_visits` limits the visits of `walk`, `longest_trace` those of a finite mobility.
    """

    def __init__(self, *, most_visits: int = MOST_VISITS, longest_trace: int = LONGEST) -> None:
        grid = _in_paris(Grid.rectangle(rows=3, cols=4, width_km=4.0, height_km=3.0))
        distance = manhattan(grid)
        roads = lattice(grid, rng=stream(0, "bench"))
        self.world = World(locations=grid, roads=roads, privacy_distance=distance, quality_distance=distance)
        cells = stream(0, "cells").integers(0, 6, size=60)
        self.statistics: Statistics = statistics([Trace("ann", np.arange(60), cells)], n_cells=grid.n_cells)
        self.channel = exponential(distance, 0.8)
        self.most_visits, self.longest_trace = most_visits, longest_trace

    @property
    def n_cells(self) -> int:
        """The number of cells of the world."""
        return self.world.n_cells

    def given(self, family: str) -> dict[str, Any]:
        """Return the arguments that the simulator passes to constructors of a family besides the scenario's keys."""
        arguments: dict[str, dict[str, Any]] = {
            "mobility": {"world": self.world, "seed": 1},
            "demand": {},
            "belief": {"statistics": self.statistics, "restart_s": None},
            "design": {"world": self.world},
            "lppm": {"world": self.world, "statistics": self.statistics},
            "attack": {
                "world": self.world,
                "statistics_of": StatisticsOf({"ann": self.statistics, "bob": self.statistics}),
            },
        }
        return arguments[family]

    def required(self, family: str) -> dict[str, Any]:
        """Return values for the parameters of a family that have no default."""
        return {"name": "checked"} if family == "attack" else {}

    def build(self, parameters: Parameters) -> Any:
        """Return the component with these parameters."""
        match parameters:
            case MobilityParameters():
                return parameters.build(self.world, 1, Place())
            case DemandParameters():
                return parameters.build()
            case BeliefParameters():
                return parameters.build(self.statistics, None, self.world)
            case DesignParameters():
                return parameters.build(self.world)
            case AttackParameters():
                known = {"ann": self.statistics, "bob": self.statistics}
                return parameters.build(AttackContext(world=self.world, known=known))
        raise TypeError(f"parameters must be those of a family with checks, got {type(parameters).__name__}")

    def priors(self) -> Iterator[FloatArray]:
        """Yield a uniform, a recorded and a one-hot prior, as new arrays."""
        yield np.full(self.n_cells, 1 / self.n_cells)
        yield self.statistics.profile.copy()
        yield np.eye(self.n_cells)[5]

    def observations(self) -> Iterator[tuple[int, FloatArray]]:
        """Yield times and likelihoods of twelve reports."""
        outputs = stream(4, "outputs").integers(0, self.channel.n_outputs, size=12).tolist()
        for index, output in enumerate(outputs):
            yield 300 * index, self.channel.likelihood(output)

    def walk(self) -> Iterator[Visit]:
        """Yield practically endless visits, to cells with even numbers only."""
        rng = stream(8, "walk")
        time_s = 0
        for _ in range(self.most_visits):
            time_s += int(rng.integers(1, 2000))
            yield Visit(time_s, int(rng.integers(self.n_cells)) // 2 * 2)
        raise ContractBroken(
            f"queries consumed {self.most_visits:,} visits before yielding: visits may be endless, yield lazily"
        )


def _in_paris(grid: Grid) -> Grid:
    """Return the same grid with latitudes and longitudes, which some designs need."""
    south, west = 48.84, 2.31
    north = south + grid.height_km / KM_PER_DEGREE
    east = west + grid.width_km / (KM_PER_DEGREE * math.cos(math.radians((south + north) / 2)))
    return replace(grid, south=south, north=north, west=west, east=east)
