"""Amount of work of the benchmark, in full and with `--quick`."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.people import DESIGNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Amount of work of the benchmark; the metrics stay the same."""

    shape: tuple[int, int] = (25, 10)
    large_shape: tuple[int, int] = (50, 50)
    queries: int = 300
    window: int = 30
    """Number of queries at the end of a run whose mean is the value at r."""
    rounds: int = 10
    long_rounds: int = 2
    """Number of rounds of a row that takes seconds per round."""
    agents: int = 1000
    agent_queries: int = 288
    em_samples: int = 12
    """Number of queries at which textbook EM is run; the others are assumed to have the same mean cost."""
    memory_users: int = 1000
    lengths: tuple[int, ...] = (300, 600, 1200, 3000)
    """Values of r at which the growth is measured."""
    designs: tuple[str, ...] = tuple(DESIGNS)
    long_designs: tuple[str, ...] = tuple(DESIGNS)
    """Designs of a row that takes seconds per round."""
    optimal_shape: tuple[int, int] = (10, 10)
    """Rows and columns of the grid on which optimal mechanisms are solved."""
    chunks: int = 400
    sweep_users: int = 20
    sweep_replications: int = 26
    """Number of replications of the sweep on one and on two workers; in full it takes a minute."""
    sweep_start_up: bool = True
    """Whether the time of the sweep includes the start of processes, which would dominate a short sweep."""
    simulations: int = 100_000
    """Number of short simulations in the study whose driver is measured."""
    few_simulations: int = 100
    """Number of short simulations in the study for comparison."""
    replay_ms: int = 2000
    """Duration of the replay in ms."""
    street_shapes: tuple[tuple[int, int], ...] = ((25, 10), (79, 32), (120, 70), (240, 140))
    """Rows and columns into which San Francisco is resolved, from 1.1 km to 100 m."""
    street_designs: tuple[str, ...] = ("Exp 1/km", "LH 0.6")
    street_users: int = 5
    """Number of users whose memory is measured."""
    street_steps: int = 100_000
    """Number of training steps of the Markov model whose memory is measured."""
    street_run_users: int = 20
    street_run_queries: int = 100
    citizens: int = 1_000_000
    """Number of users of the large population."""
    few_citizens: int = 1_000
    """Number of users of the population for comparison."""
    dask_users: int = 20_000
    checkins_queries: int = 150
    """Number of queries of each user of the scenario that is compared with an earlier version."""
    street_distances: tuple[str, ...] = ("manhattan", "euclidean")


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
    citizens=20_000,
    dask_users=5_000,
    checkins_queries=50,
    street_users=2,
    street_run_users=4,
    street_run_queries=25,
)
