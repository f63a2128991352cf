"""Run a scenario from Python."""

from __future__ import annotations

from pathlib import Path

from sim.api.progress import ProgressOption, chosen_progress
from sim.api.result import Result
from sim.components.permission import AllowCode
from sim.execution.pool import Pool
from sim.execution.run import run as run_scenario
from sim.scenario.models import Scenario


def run(
    scenario: Scenario,
    *,
    out: str | Path | None = None,
    progress: ProgressOption = None,
    figures: bool = True,
    workers: int | None = None,
    dask: str | None = None,
    pool: Pool | None = None,
    shard: tuple[int, int] | None = None,
    chunk: str | None = None,
    chunk_queries: int | None = None,
    dask_timeout: float | None = None,
    allow_code: AllowCode | None = None,
) -> Result:
    """Run a scenario, or resume it: finished chunks are not simulated again.

    Interrupting a run loses nothing but the chunks in progress: the same call resumes it. Results do not depend on
    how the work is divided.

    Parameters
    ----------
    scenario
        Scenario, from `sim.load` or `sim.make_scenario`.
    out
        Run directory, or a URL with the extra ``cloud``. Default: ``outputs/<name>-<digest>``.
    progress
        None: a progress bar in a terminal or a notebook, else nothing. False: nothing. True: a bar, or a line every
        ten seconds outside a terminal. A function is called with the number of queries simulated so far and
        the approximate total. An object with the methods of `sim.Progress` is notified of chunks too.
    figures
        Whether to write figures and the report.
    workers
        Number of worker processes. Default: this process alone. A script that uses more needs the usual
        ``if __name__ == "__main__":``.
    dask
        Address of a Dask cluster, or ``"local"``, with the extra ``dask``.
    pool
        Open pool that simulates; it stays open.
    shard
        (i, N): simulate only the i-th of N shares and write no results. A run without it then writes them.
    chunk
        Id of the only chunk to simulate, in this process; its error is raised unchanged.
    chunk_queries
        Least number of queries of a chunk. Default: 10,000.
    dask_timeout
        Longest wait, in s, while the Dask cluster has no worker.
    allow_code
        Permission to import custom components (``module:Class``): True, or the folders to import from. Default: as
        given to `sim.load` or `sim.make_scenario`, or by the environment variable ``LPPM_SIM_ALLOW_CODE``.

    Returns
    -------
    Result
        Frames, figures and report of the run.

    Raises
    ------
    FailedChunks
        If chunks failed; all others are written.
    Interrupted
        On Ctrl-C: a KeyboardInterrupt that states what was written.

    Examples
    --------
    >>> import tempfile
    >>> import sim
    >>> users = {"count": 5, "queries": 10, "mobility": "favourites"}
    >>> scenario = sim.make_scenario(users=users, lppms=["SP-Exp"], attacks=["sporadic"], replications=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = sim.run(scenario, out=folder, figures=False)
    ...     len(result.events())
    50
    """
    with chosen_progress(progress, scenario.name) as display:
        finished = run_scenario(
            scenario,
            out=out,
            progress=display,
            figures=figures,
            workers=workers,
            dask=dask,
            pool=pool,
            shard=shard,
            chunk=chunk,
            chunk_queries=chunk_queries,
            dask_timeout=dask_timeout,
            allow_code=allow_code,
        )
    return Result.of(finished)
