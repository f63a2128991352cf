"""CPU time of a run besides its simulations: start-up, parts, tables, figures and report.

The constants were measured on one machine (`benchmarks/sweeps.py` compares whole runs with estimates). They are scaled
by the time in which the calling process has started, which measures the speed of a machine.
"""

from __future__ import annotations

from dataclasses import dataclass

START_S = 1.9
"""CPU time in s to start Python and to import everything that a simulation needs, compiled kernels included."""
PART_S = 0.02
"""CPU time in s to write the part of a chunk and to verify it at the end."""
TABLES_S, ROW_S, COMBINATION_S = 0.1, 2e-6, 2e-5
"""CPU time in s of the tables: constant, for each row of the log, and for each user, LPPM and attack of each point."""
FIGURES_S, ATTACK_S, SHIFTS_S = 1.0, 0.7, 1.0
"""CPU time in s of figures and report: constant, for each attack, and for the figure of shifts."""


@dataclass(frozen=True, slots=True)
class Times:
    """CPU time in s of the stages of a run."""

    start_s: float
    simulation_s: float
    """Time of all chunks, which workers share."""
    end_s: float
    """Time of tables, figures and report."""
    chunks: int = 1
    """Number of chunks that can be simulated at the same time."""
    once_s: float = 0.0
    """Time in which each worker builds the world and the training sets."""
    search_s: float = 0.0
    """Time of the searches for realised budgets, before the run."""
    searches: int = 0
    """Number of searches, which workers share."""

    def cpu_s(self, workers: int = 1) -> float:
        """Return the CPU time of the run; each of several workers is a further process."""
        more = self._useful(workers)
        run_s = self.start_s + self.simulation_s + self.end_s
        return run_s + self.search_s + (more > 1) * more * self.start_s + self._repeated_s(more)

    def wall_s(self, workers: int) -> float:
        """Return the time that passes with some worker processes, each on its own core.

        >>> times = Times(start_s=2.0, simulation_s=60.0, end_s=3.0, chunks=3)
        >>> times.wall_s(1), times.wall_s(2), times.wall_s(99)
        (65.0, 47.0, 27.0)
        >>> Times(start_s=2.0, simulation_s=60.0, end_s=3.0, chunks=3, search_s=30.0, searches=3).wall_s(2)
        67.0
        """
        useful = self._useful(workers)
        rounds = -(-self.chunks // useful)
        shared_s = (self.simulation_s - self.once_s) * rounds / self.chunks + self.once_s
        return self.start_s + (useful > 1) * self.start_s + self._searched_s(workers) + shared_s + self.end_s

    def _searched_s(self, workers: int) -> float:
        return self.search_s * -(-self.searches // max(workers, 1)) / max(self.searches, 1)

    def _useful(self, workers: int) -> int:
        return max(min(workers, self.chunks), 1)

    def _repeated_s(self, workers: int) -> float:
        return (workers - 1) * self.once_s


def start_and_end(
    *, started_s: float, rows: float, combinations: float, attacks: int, shifts: bool
) -> tuple[float, float]:
    """Return the CPU time in s of the start and of the end of a run, given that of the start of this process."""
    tables_s = TABLES_S + ROW_S * rows + COMBINATION_S * combinations
    figures_s = FIGURES_S + ATTACK_S * attacks + SHIFTS_S * shifts
    return started_s, (tables_s + figures_s) * started_s / START_S
