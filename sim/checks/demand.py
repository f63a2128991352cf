"""Contract checks of demands."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from sim.checks.bench import Bench
from sim.checks.requirements import require, require_count, require_in_order
from sim.events import Visit
from sim.interfaces import Demand, DemandCapabilities
from sim.rng import stream


def demand_is_in_order(demand: Demand, bench: Bench) -> None:
    """Queries are in order of time, are yielded lazily, and are reproducible with the same random stream."""
    queries = list(islice(demand.queries(bench.walk(), stream(9, "moments")), 100))
    require_in_order(queries, bench.n_cells)
    again = list(islice(demand.queries(bench.walk(), stream(9, "moments")), 100))
    require(queries == again, "two calls of queries with the same random stream differ")


def demand_uses_visited_cells(demand: Demand, bench: Bench) -> None:
    """Every query is in a cell that the user has visited before."""
    visited: set[int] = set()

    def recorded() -> Iterator[Visit]:
        for visit in bench.walk():
            visited.add(visit.cell)
            yield visit

    for query in islice(demand.queries(recorded(), stream(9, "moments")), 50):
        require(query.cell in visited, f"the query at {query.time_s} s is in cell {query.cell}, not visited before")


def demand_capabilities_are_valid(demand: Demand, _bench: Bench) -> None:
    """The optional `period_s` is an integer number of seconds."""
    require_count(DemandCapabilities.period_s, demand)
