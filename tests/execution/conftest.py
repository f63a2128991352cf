"""Fixtures that several modules share: processes that start without imports, and a scenario that waits at a gate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sim.inference import kernels
from tests.command_server import CommandServer, command_server
from tests.execution.gated import Gated, write_gated
from tests.support import numpy_kernels


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    """Return a server of processes that have imported the package and Dask, and use NumPy."""
    modules = (
        "sim.execution.dask.worker",
        "dask.__main__",
        "distributed.cli.dask_scheduler",
        "distributed.cli.dask_worker",
    )
    settings = {kernels.VARIABLE: "plain"}
    with command_server(tmp_path_factory.mktemp("commands"), *modules, **settings) as server:
        yield server


@pytest.fixture(scope="session")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Gated:
    """Return the gated scenario with an uninterrupted run of it, simulated with NumPy."""
    with numpy_kernels(), pytest.MonkeyPatch.context() as patch:
        patch.setenv(kernels.VARIABLE, "plain")
        return write_gated(tmp_path_factory.mktemp("gated"))
