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
    """Queries come in order of time, from endless visits too, and repeat with their random stream."""
    queries = list(islice(demand.queries(bench.walk(), stream(9, "moments")), 100))
    require_in_order(queries, bench.n_cells)
    again = list(islice(demand.queries(bench.walk(), stream(9, "moments")), 100))
    require(queries == again, "the same stream gave other queries")


def demand_uses_visited_cells(demand: Demand, bench: Bench) -> None:
    """A query comes from a cell that the user has visited."""
    visited: set[int] = set()

    def watched() -> Iterator[Visit]:
        for visit in bench.walk():
            visited.add(visit.cell)
            yield visit

    for query in islice(demand.queries(watched(), stream(9, "moments")), 50):
        require(query.cell in visited, f"the query at {query.time_s} s is from cell {query.cell}, never visited")


def demand_describes_itself(demand: Demand, _bench: Bench) -> None:
    """The optional `period_s` is a whole number of seconds."""
    require_count(DemandCapabilities.period_s, demand)
