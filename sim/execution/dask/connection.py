"""Connect to Dask: import it, find a scheduler, start and kill a cluster on this machine."""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from sim.execution.pool import TRIES
from sim.simulation import interrupts
from sim.storage.errors import RequestError

LOCAL_WAIT_S = 120.0
"""Default time that a run waits while a local cluster has no worker, before it restarts the cluster."""
REACH_S = 10.0
"""Maximum time of a scheduler to accept a connection."""
LOST_WORKER_TIMEOUT = "distributed.deploy.lost-worker-timeout"
"""Dask setting: time after which Dask drops the nanny of a lost worker."""
SILENT_WORKERS = {"distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "critical"}
"""Dask setting: worker processes of a local cluster log no lost connections to the terminal."""


def dask_module(name: str = "distributed") -> Any:
    """Import a module of the extra `dask`, which is heavy, optional and only partly typed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise RequestError(
            f"Dask is not installed ({error}): pip install 'lppm-sim[dask]'", code="missing-extra"
        ) from error


def start_local(workers: int) -> Any:
    """Start a scheduler in this process, and worker processes that end with it, each with one BLAS thread.

    A worker that takes longer than `LOCAL_WAIT_S` to start ends itself.
    """
    dask_module("cryptography")
    with interrupts.signals_delayed():
        return dask_module().LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            death_timeout=LOCAL_WAIT_S,
            memory_limit=0,  # no limit: Dask would kill workers that use more than their share
            silence_logs=logging.CRITICAL,
            security=True,  # otherwise any user of this machine could execute code here
            protocol="tls://",
            scheduler_kwargs={"allowed_failures": TRIES - 1, "dashboard": False},
        )


def has_lost_nannies(local: Any) -> bool:
    """Return whether all nannies of a local cluster have ended, so that no worker will be restarted."""
    over = {"closing", "closing_gracefully", "closed", "failed", "stopping", "stopped"}
    return all(nanny.status.name in over for nanny in list(local.workers.values()))


def kill_local(local: Any) -> None:
    """Kill a local cluster; this is safe because parts are written atomically."""
    for nanny in list(local.workers.values()):
        with suppress(ProcessLookupError, TypeError):
            os.kill(nanny.pid, signal.SIGKILL)
    local.close(timeout=REACH_S)


def connect(address: str, local: Any = None) -> Any:
    """Return a client of a local cluster, or of the scheduler at an address."""
    try:
        return dask_module().Client(local or address, timeout=REACH_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise RequestError(
            f"no Dask scheduler can be reached at {address!r} ({str(error) or type(error).__name__}): give the address "
            "that `dask scheduler` prints, such as tcp://host:8786, or `local` for a cluster on this machine",
            code="scheduler-unreachable",
        ) from error


def address_in(path: Path) -> str:
    """Return the address in a scheduler file; wait for a scheduler that is about to write it."""
    for _ in range(int(REACH_S / 0.1)):
        if path.exists():
            break
        time.sleep(0.1)
    try:
        return str(json.loads(path.read_bytes())["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(
            f"{path} is not a scheduler file ({error!r}): `dask scheduler --scheduler-file {path}` writes it",
            code="invalid-scheduler-file",
        ) from error
