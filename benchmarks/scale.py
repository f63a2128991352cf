"""How much work the benchmark does, in full and with `--quick`."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.people import DESIGNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much work the benchmark does; what it measures stays the same."""

    shape: tuple[int, int] = (25, 10)
    large_shape: tuple[int, int] = (50, 50)
    queries: int = 300
    window: int = 30
    """So many queries at the end of a run stand for "at r"."""
    rounds: int = 10
    long_rounds: int = 2
    """Rounds of a row that takes seconds a round."""
    agents: int = 1000
    agent_queries: int = 288
    em_samples: int = 12
    """At so many of the queries textbook EM is run; the others are taken to cost the same on average."""
    memory_users: int = 1000
    lengths: tuple[int, ...] = (300, 600, 1200, 3000)
    """At these r the growth is measured."""
    designs: tuple[str, ...] = tuple(DESIGNS)
    long_designs: tuple[str, ...] = tuple(DESIGNS)
    """The designs of a row that takes seconds a round."""
    optimal_shape: tuple[int, int] = (10, 10)
    """The grid that optimal mechanisms are solved on."""
    chunks: int = 400
    sweep_users: int = 20
    sweep_replications: int = 26
    """Of the sweep that is run on one and on two workers; in full it lasts a minute."""
    sweep_start_up: bool = True
    """Whether the time of the sweep includes the start of processes; a short sweep is too short for that."""
    simulations: int = 100_000
    """Number of short simulations in the study whose driver is measured."""
    few_simulations: int = 100
    """Number of short simulations in the study that it is compared with."""
    replay_ms: int = 2000
    """How long the replay plays."""


FULL = Scale()
QUICK = Scale(
    rounds=5,
    long_rounds=1,
    em_samples=6,
    memory_users=100,
    lengths=(150, 300, 600, 1200),
    long_designs=("Exp 1/km", "LH 0.6"),
    optimal_shape=(10, 5),
    chunks=100,
    sweep_replications=3,
    sweep_start_up=False,
    simulations=1_000,
)
