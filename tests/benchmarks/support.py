"""Minimal amount of work and calls of the command, for the tests of the benchmark."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from benchmarks.__main__ import main
from benchmarks.rows import ROWS
from benchmarks.scale import Scale

TINY = Scale(
    shape=(3, 4),
    large_shape=(4, 5),
    queries=12,
    window=3,
    rounds=2,
    long_rounds=1,
    agents=3,
    agent_queries=5,
    em_samples=2,
    memory_users=3,
    lengths=(5, 8, 12),
    optimal_shape=(2, 3),
    chunks=4,
    sweep_users=1,
    sweep_replications=1,
    simulations=4,
    few_simulations=2,
    replay_ms=300,
    street_shapes=((3, 4), (4, 5), (5, 6)),
    citizens=8,
    few_citizens=4,
    dask_users=4,
    checkins_queries=2,
    street_users=1,
    street_steps=50,
    street_run_users=1,
    street_run_queries=3,
)
NAMES = [row.name for row in ROWS]


def bench(*words: str | Path) -> Result:
    """Invoke the command; raise an unexpected error."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refused(*words: str | Path) -> str:
    """Return the message for an invalid request."""
    result = bench(*words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return " ".join(result.stderr.split())
