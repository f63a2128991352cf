"""Size of the chunks of a scenario: the number of queries in a chunk, and the division of users into blocks.

The size is a function of the scenario alone, never of measured times or of the number of workers: it determines the ids
of the parts.
"""

from __future__ import annotations

from collections.abc import Collection

from sim.execution.blocks import ChunkSize
from sim.scenario.models import Scenario

CHUNK_QUERIES = 10_000
"""Minimum number of queries in a chunk on a small grid, if the scenario has enough: about a second of work."""
BLOCK_QUERIES = 1_000
"""Minimum number of queries in a block of users, even if smaller chunks are requested: writing a part takes 10 ms."""
CELLS, CELLS_LEARNING = 2_000, 500
"""Number of cells above which a chunk has fewer queries, in proportion, without and with beliefs that learn.

A query of a learning mechanism takes about 50 ms at 33,600 cells; a chunk then has 148 queries and takes seconds, so
that an interrupted run loses little work.
"""


def chunk_size(
    scenario: Scenario, lppms: Collection[str], *, users: int, queries: int, chunk_queries: int | None = None
) -> ChunkSize:
    """Return the size of the chunks of some LPPMs, each with about `queries` queries of all `users`.

    A chunk has at least `chunk_queries` queries (default: `queries_in_chunk`) if there are enough, and less than twice
    this number unless one user has more. Short simulations join replications, long ones are divided into blocks of
    users, none of which has fewer than the default or `BLOCK_QUERIES` queries. Scenarios that need all users in one
    simulation (`Scenario.everybody_needed_by`) are not divided.
    """
    least = queries_in_chunk(scenario, lppms) if chunk_queries is None else chunk_queries
    in_simulations = max(queries * len(lppms), 1)
    blocks = _blocks(scenario, lppms, users, in_simulations, least)
    if blocks > 1 and not scenario.everybody_needed_by:
        return ChunkSize(blocks=blocks, users=users)
    return ChunkSize(replications=-(-least // in_simulations), users=users)


def undivided_note(scenario: Scenario, *, users: int, queries: int) -> str:
    """Return a note that a large population is simulated in one piece, with the reason; empty if this is not so."""
    names = [lppm.name for lppm in scenario.lppms]
    if _blocks(scenario, names, users, queries * len(names), queries_in_chunk(scenario, names)) < 2:
        return ""
    if not (reason := scenario.everybody_needed_by):
        return ""
    return (
        f"{reason} needs all {users:,} users in one simulation: they are not divided into blocks, so memory and "
        "the work that an interrupt loses grow with the number of users"
    )


def _blocks(scenario: Scenario, lppms: Collection[str], users: int, queries: int, least: int) -> int:
    """Return the number of blocks for chunks of at least `least` of all `queries`."""
    return min(queries // max(least, min(BLOCK_QUERIES, queries_in_chunk(scenario, lppms))), users)


def queries_in_chunk(scenario: Scenario, lppms: Collection[str]) -> int:
    """Return the minimum number of queries in a chunk: fewer for large grids and for beliefs that learn."""
    specs = [lppm for lppm in scenario.lppms if lppm.name in lppms]
    learns = not all(spec.is_memoryless for spec in specs) or not all(one.is_memoryless for one in scenario.attacks)
    return max(min(CHUNK_QUERIES, CHUNK_QUERIES * (CELLS_LEARNING if learns else CELLS) // scenario.n_cells), 1)
