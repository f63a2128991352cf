"""Dask clusters: real schedulers and worker processes write the same bytes as one process, whichever of them die."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import distributed
import pytest

import sim
from sim.components.permission import CodeAccess
from sim.errors import UserError
from sim.execution.dask import cluster as cluster_module
from sim.execution.dask import connection, waiting
from sim.execution.dask.cluster import WINDOW, Cluster
from sim.execution.failures import FailedChunks
from sim.execution.plan import Chunk
from sim.execution.pool import Done, Failure
from sim.scenario.models import Scenario
from sim.simulation.progress import Tick
from sim.storage.errors import RequestError, RunError
from sim.storage.run_directory import RunDirectory
from tests.command_server import DASK, CommandServer, ServedProcess
from tests.execution.gated import CHUNKS, VARIABLE, Gate, Gated, run
from tests.storage.conftest import object_store  # noqa: F401
from tests.support import ROOT, MakeScenario, done, files, plan, raises_code, refused, until

pytestmark = pytest.mark.usefixtures("plain_kernels", "fork_server")

FAULTY = '''
import os, resource, signal
from pathlib import Path
from sim.lppm.designs.identity import Identity


class Faulty(Identity):
    """Identity that fails in the given way: once for each order, a file in a folder, or always."""

    uses_prior = True

    def __init__(self, *, world, how, folder, always=False):
        super().__init__(n_cells=world.n_cells)
        self.how, self.orders, self.always = how, Path(folder), always

    def __call__(self, prior):
        if self.always or self.ordered():
            if self.how == "raise":
                raise RuntimeError("something went <wrong>")
            if self.how == "fill":
                resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            if self.how == "die":
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(prior)

    def ordered(self):
        for order in sorted(self.orders.glob("order-*")):
            try:
                order.unlink()  # only one worker succeeds
            except FileNotFoundError:
                continue
            return True
        return False
'''

SMALL: dict[str, Any] = {"users": {"count": 2, "queries": 8, "mobility": "favourites"}}


class Machines:
    """A scheduler and workers, each in a separate process and session."""

    def __init__(self, folder: Path, commands: CommandServer, stack: ExitStack) -> None:
        self.file = folder / "scheduler.json"
        self.gate = folder / "gate"
        self._folder, self._commands, self._stack = folder, commands, stack
        words = ("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-jupyter")
        self.scheduler = self._start(*words, "--scheduler-file", str(self.file))
        until(lambda: self.file.exists() and self.file.stat().st_size > 0)
        self.address: str = json.loads(self.file.read_text())["address"]
        self._client = stack.enter_context(
            distributed.Client(self.address, set_as_default=False)  # type: ignore[no-untyped-call]
        )

    def add(self, environment: Mapping[str, str] | None = None, *, wait: bool = True) -> ServedProcess:
        """Start one more worker, with changes to its environment."""
        before = self.count() if wait else 0
        words = ("worker", self.address, "--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard", "--no-nanny")
        worker = self._start(*words, environment=environment)
        if wait:
            until(lambda: self.count() > before)
        return worker

    def count(self) -> int:
        """Return the number of workers."""
        return len(self._client.nthreads())

    def tasks(self) -> int:
        """Return the number of tasks of the scheduler."""
        return int(self._client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))

    def _start(self, *words: str, environment: Mapping[str, str] | None = None) -> ServedProcess:
        settings = {VARIABLE: str(self.gate), **(environment or {})}
        program = self._commands.running(*words, program=DASK, folder=self._folder, environment=settings)
        return self._stack.enter_context(program)


@contextmanager
def machines(folder: Path, commands: CommandServer, workers: int) -> Iterator[Machines]:
    with ExitStack() as stack:
        started = Machines(folder, commands, stack)
        for _ in range(workers):
            started.add(wait=False)
        until(lambda: started.count() == workers)
        yield started


@pytest.fixture(scope="module")
def two(plain_kernels: None, commands: CommandServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Return a scheduler with two workers, for tests that leave them alive."""
    with machines(tmp_path_factory.mktemp("cluster"), commands, 2) as started:
        yield started


@pytest.fixture(scope="module")
def local(plain_kernels: None, fork_server: None) -> Iterator[Cluster]:
    """Return a local cluster with two workers, which it restarts when they die."""
    with closing(Cluster("local", 2)) as cluster:
        yield cluster


@pytest.fixture
def faulty(make_scenario: MakeScenario, tmp_path: Path) -> Any:
    """Return a function that makes a scenario with a design that fails a number of times, in some way."""
    name = f"faulty_{tmp_path.name}"  # unique, because workers of a module stay alive with their imports
    (tmp_path / f"{name}.py").write_text(FAULTY)

    def make(how: str, times: int, always: bool = False, **changes: Any) -> Scenario:
        for number in range(times):
            (tmp_path / f"order-{number}").touch()
        design = {"kind": f"{name}:Faulty", "how": how, "folder": str(tmp_path), "always": always}
        faulty = {"name": "faulty", "belief": "fixed_profile", "design": design}
        return make_scenario(**({"lppms": ["SP-Exp", faulty], "replications": 3} | SMALL | changes)).at(
            tmp_path, None, CodeAccess(allowed=True, beside=tmp_path)
        )

    return make


class FailingPool:
    """Pool that simulates nothing."""

    def run(self, chunks: Iterable[Chunk], directory: RunDirectory, tick: Tick) -> Iterator[Done | Failure]:
        return (Failure(chunk, "not simulated") for chunk in chunks)

    def close(self) -> None: ...


def begun(scenario: Scenario, out: Path) -> tuple[RunDirectory, list[Chunk]]:
    """Return a run directory that has a manifest and no parts, and the chunks of the run."""
    with pytest.raises(FailedChunks):
        run(scenario, out, pool=FailingPool())
    return RunDirectory.open(out), plan(scenario)


@contextmanager
def closing(cluster: Cluster) -> Iterator[Cluster]:
    try:
        yield cluster
    finally:
        cluster.close()


def silent(_: object) -> None:
    """Do nothing."""


def test_remote_workers_write_the_same_bytes(
    make_scenario: MakeScenario, tmp_path: Path, two: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # not the folder of the workers
    scenario = make_scenario(
        **SMALL,
        lppms=["SP-Exp", "PEB-LH"],
        replications=3,
        sweep={"lppms.*.design.epsilon_per_km": [0.5, 2]},
        record={"snapshots": [5]},
    )
    run(scenario, "here")
    run(scenario, "by_address", dask=two.address)
    run(scenario, "by_file", dask=str(two.file))
    assert files(tmp_path / "here") == files(tmp_path / "by_address") == files(tmp_path / "by_file")


def test_a_local_cluster_follows_the_stopping_rule(make_scenario: MakeScenario, tmp_path: Path, local: Cluster) -> None:
    scenario = make_scenario(**SMALL, replications={"until_half_width_km": 0.3, "at_most": 12})
    run(scenario, tmp_path / "cluster", pool=local)
    result = run(scenario, tmp_path / "here")
    assert max(row.replications for row in result.manifest.repetitions) > 5, "more than one round"
    assert files(tmp_path / "here") == files(tmp_path / "cluster")


def test_a_local_worker_has_one_thread_and_one_for_blas_and_ticks_add_up(
    make_scenario: MakeScenario, tmp_path: Path, local: Cluster
) -> None:
    directory, chunks = begun(make_scenario(**SMALL, replications=2), tmp_path)
    counted: list[int] = []
    assert {type(end) for end in local.run(chunks, directory, counted.append)} == {Done}
    assert sum(counted) == 2 * 2 * 2 * 8
    client = local._client
    assert sorted(client.nthreads().values()) == [1, 1]
    threads = client.run(lambda: [os.environ[f"{name}_NUM_THREADS"] for name in ("OMP", "OPENBLAS", "MKL")])
    assert list(threads.values()) == [["1"] * 3] * 2


def test_one_cluster_runs_scenarios_with_different_files(
    make_scenario: MakeScenario, tmp_path: Path, local: Cluster
) -> None:
    """The workers compare each run with its own manifest and do not reuse users of a file that has changed."""
    users = {"mobility": {"kind": "replay", "file": "t.csv"}}
    scenario = make_scenario(users=users, training={}, lppms=["SP-Exp"], attacks=[]).at(tmp_path, None)
    for cell in (1, 2):
        (tmp_path / "t.csv").write_text("user,time,cell\n" + "".join(f"a,{time},{cell}\n" for time in range(4)))
        assert run(scenario, tmp_path / str(cell), pool=local).events()["cell"].tolist() == [cell] * 4


def test_only_workers_of_this_process_see_a_run_in_memory(
    make_scenario: MakeScenario, tmp_path: Path, two: Machines
) -> None:
    scenario = make_scenario(**SMALL, replications=2)
    events = run(scenario, "memory://here").events()
    with distributed.LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
    ) as inside:
        result = run(scenario, "memory://inside", dask=inside.scheduler_address)
    assert result.events().equals(events)
    with raises_code(RequestError, "directory-not-shared") as error:
        run(scenario, "memory://refused", dask=two.address)
    assert "memory://refused" in str(error.value)


def test_a_run_goes_to_an_object_store(
    make_scenario: MakeScenario, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = request.getfixturevalue("object_store")
    sweep = {"lppms.*.design.epsilon_per_km": [0.5, 2]}
    scenario = make_scenario(**SMALL, replications=3, sweep=sweep, lppms=["SP-Exp"])
    stored = run(scenario, f"{store}/{tmp_path.name}", dask="local", workers=2).run
    directory = run(scenario, tmp_path / "here").run
    assert stored.parts() == directory.parts()
    for part in directory.parts():
        assert stored.part_path(part).read_bytes() == directory.part_path(part).read_bytes()
    assert stored.file("summary.csv").read_bytes() == directory.file("summary.csv").read_bytes()


broken_off = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)
"""If workers die, Dask may leave their socket, and nothing else, to the garbage collector."""


@broken_off
def test_a_dead_worker_loses_no_chunk(faulty: Any, tmp_path: Path, local: Cluster) -> None:
    run(faulty("die", 2), tmp_path / "died", pool=local)
    assert not list(tmp_path.glob("order-*"))
    run(faulty("die", 0), tmp_path / "lived")
    assert files(tmp_path / "died") == files(tmp_path / "lived")


@broken_off
def test_a_chunk_that_kills_every_worker_fails_and_the_rest_finishes(
    faulty: Any, tmp_path: Path, local: Cluster
) -> None:
    sweep = {"lppms.faulty.design.how": ["nothing", "die", "nothing else", "nothing at all"]}
    scenario = faulty("nothing", 0, replications=1, sweep=sweep, always=True)
    with pytest.raises(FailedChunks) as caught:
        run(scenario, tmp_path / "run", pool=local)
    assert [failure["error"] for failure in caught.value.failures] == ["its worker died 3 times"]
    assert caught.value.failures[0]["point"] == 1
    assert set(sim.Result.open(tmp_path / "run").events()["point"]) == {0, 2, 3}


@broken_off
def test_another_worker_takes_over_when_a_machine_dies(tmp_path: Path, gated: Gated, commands: CommandServer) -> None:
    directory, chunks = begun(gated.scenario, tmp_path / "run")
    with machines(tmp_path, commands, 1) as started:
        doomed = started.add()
        gate = Gate(started.gate, tmp_path / "run")
        with closing(Cluster(started.address)) as cluster:
            ends = cluster.run(chunks, directory, silent)
            finished = [next(ends)]
            until(lambda: gate.waiting() == 2)
            doomed.end()
            gate.open()
            finished += ends
    assert [type(end) for end in finished] == [Done] * CHUNKS
    assert files(tmp_path / "run" / "events") == files(gated.whole / "events")


def close_nannies(cluster: Cluster) -> None:
    """End all workers of a local cluster and the nannies that would restart them."""
    for nanny in list(cluster._local.workers.values()):
        cluster._local.sync(nanny.close, timeout=0.5)


@broken_off
def test_a_local_cluster_that_loses_all_workers_is_restarted(
    tmp_path: Path, gated: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, chunks = begun(gated.scenario, tmp_path / "run")
    gate = Gate(tmp_path / "gate", tmp_path / "run")
    monkeypatch.setenv(*next(iter(gate.environment.items())))
    notices: list[str] = []
    with closing(Cluster("local", 2, notify=notices.append)) as cluster:
        close_nannies(cluster)  # before the first request to a worker
        ends = cluster.run(chunks, directory, silent)
        finished = [next(ends)]
        until(lambda: gate.waiting() == 2)
        close_nannies(cluster)
        gate.open()
        finished += ends
    assert [type(end) for end in finished] == [Done] * CHUNKS
    assert files(tmp_path / "run" / "events") == files(gated.whole / "events")
    assert [re.findall(r"\d of at most \d", line) for line in notices] == [["1 of at most 5"]] * 2


@broken_off
def test_a_chunk_that_ends_local_clusters_fails_and_the_rest_finishes(faulty: Any, tmp_path: Path) -> None:
    """The time limit is so short that no nanny restarts a worker in time, so the whole cluster is restarted."""
    sweep = {"lppms.faulty.design.how": ["nothing", "die", "nothing else"]}
    scenario = faulty("nothing", 0, replications=1, sweep=sweep, always=True)
    directory, chunks = begun(scenario, tmp_path / "run")
    with closing(Cluster("local", 1, notify=silent)) as cluster:
        cluster._watch.timeout_s = 0.01
        ends = list(cluster.run(chunks, directory, silent))
    assert sorted(type(end).__name__ for end in ends) == ["Done", "Done", "Failure"]
    (failure,) = [end for end in ends if isinstance(end, Failure)]
    assert failure.chunk.point.index == 1
    assert failure.error.startswith("its worker died ")


@broken_off
def test_a_local_cluster_without_workers_ends_the_run(
    make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real clusters that never have a worker, as on a machine too busy to start one."""
    monkeypatch.setattr(cluster_module, "MOST_LOSSES", 2)
    start = connection.start_local
    monkeypatch.setattr(connection, "start_local", lambda _workers: start(0))
    directory, chunks = begun(make_scenario(), tmp_path)
    notices: list[str] = []
    with (
        closing(Cluster("local", 1, notify=notices.append, timeout_s=0.1)) as cluster,
        raises_code(RunError, "workers-lost"),
    ):
        list(cluster.run(chunks, directory, silent))
    assert [re.findall(r"\d of at most \d", line) for line in notices] == [["1 of at most 2"], ["2 of at most 2"]]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the workers of a cluster often, and report whenever it has none."""
    monkeypatch.setattr(waiting, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(waiting, "_REMIND_EVERY_S", 0.0)
    for module in (waiting, cluster_module):
        monkeypatch.setattr(module, "LOOK_EVERY_S", 0.1)


@broken_off
@pytest.mark.usefixtures("impatient")
def test_a_run_waits_for_lost_workers_up_to_a_limit(
    tmp_path: Path, gated: Gated, commands: CommandServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, chunks = begun(gated.scenario, tmp_path / "run")
    notices: list[str] = []
    with machines(tmp_path, commands, 0) as started:
        doomed = [started.add(), started.add()]
        gate = Gate(started.gate, tmp_path / "run")
        with closing(Cluster(started.address, notify=notices.append, timeout_s=2)) as cluster:
            ends = cluster.run(chunks, directory, silent)
            next(ends)
            until(lambda: gate.waiting() == 2)
            for worker in doomed:
                worker.end()
            monkeypatch.setattr(connection, "REACH_S", 0.1)  # of results that the workers have not sent
            with raises_code(RunError, "no-workers") as error:
                list(ends)
    assert started.address in str(error.value)
    assert "--dask-timeout" in str(error.value)
    assert len(notices) >= 2, "the notice is repeated"
    assert 0 < len(directory.parts()) < CHUNKS
    gate.open()
    run(gated.scenario, tmp_path / "run")
    assert files(tmp_path / "run" / "events") == files(gated.whole / "events")


def test_the_time_limit_is_an_option(small: Path, two: Machines) -> None:
    assert "--dask-timeout" in refused("run", small, "--dask-timeout", "5")
    assert "x>0" in refused("run", small, "--dask", two.address, "--dask-timeout", "0")
    with raises_code(RequestError, "invalid-value") as error:
        Cluster(two.address, timeout_s=-1)
    assert "got -1" in str(error.value)
    done("run", small, "--dask", two.address, "--dask-timeout", "60", "--no-figures")


def test_a_failed_simulation_does_not_stop_the_others(faulty: Any, tmp_path: Path, two: Machines) -> None:
    with pytest.raises(FailedChunks) as caught:
        run(faulty("raise", 1), tmp_path / "run", dask=two.address)
    (entry,) = caught.value.failures
    assert entry["error"] == "RuntimeError: something went <wrong>"
    assert "in __call__" in entry["traceback"]
    assert len(sim.Result.open(tmp_path / "run").events()) == 2 * 2 * 2 * 2 * 8, "the other two chunks are written"
    faulty("raise", 1)
    directory, chunks = begun(faulty("raise", 1), tmp_path / "alone")
    with closing(Cluster(two.address)) as cluster:
        ends = list(cluster.run(chunks, directory, silent))
        assert sorted(type(end).__name__ for end in ends) == ["Done", "Done", "Failure"]
        (failure,) = [end for end in ends if isinstance(end, Failure)]
        assert failure.lppm == "faulty"
        assert all(end.queries for end in ends if isinstance(end, Done))
        (ended,) = cluster.run([failure.chunk], directory, silent)
        assert isinstance(ended, Done), "no order is left"


def test_a_worker_that_cannot_write_ends_the_run_with_its_error(faulty: Any, tmp_path: Path) -> None:
    with raises_code(UserError, "file-error") as caught:
        run(faulty("fill", 1), tmp_path / "run", dask="local", workers=1)
    assert "File too large" in str(caught.value)
    assert caught.value.exit_code == 1


def test_the_number_of_submitted_chunks_is_limited(make_scenario: MakeScenario, tmp_path: Path) -> None:
    directory, chunks = begun(make_scenario(**SMALL, lppms=["SP-Exp"], replications=20), tmp_path)
    given = ended = most = 0

    def watched() -> Iterator[Chunk]:
        nonlocal given, most
        for chunk in chunks:
            given += 1
            most = max(most, given - ended)
            yield chunk

    with (
        distributed.LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as inside,
        closing(Cluster(inside.scheduler_address)) as cluster,
    ):
        assert cluster.in_process
        for _ in cluster.run(watched(), directory, silent):
            ended += 1
            assert len(inside.scheduler.tasks) <= WINDOW * 2 + 1, "the scheduler forgets finished tasks"
    assert ended == 20
    assert most == WINDOW * 2


def test_workers_with_other_kernels_or_versions_are_refused_also_if_they_join_later(
    make_scenario: MakeScenario, tmp_path: Path, commands: CommandServer
) -> None:
    numba = f"numba {version('numba')}"
    other = tmp_path / "other" / "lppm_sim-99.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: lppm-sim\nVersion: 99.0\n")
    scenario = make_scenario(**SMALL, lppms=["SP-Exp"], replications=12)
    directory, chunks = begun(scenario, tmp_path / "begun")
    with machines(tmp_path, commands, 1) as started:

        def with_another_worker() -> Iterator[Chunk]:
            yield from chunks[:1]
            started.add({"LPPM_SIM_KERNELS": "numba"})
            yield from chunks[1:]

        with closing(Cluster(started.address)) as cluster, raises_code(UserError, "unfit-worker") as caught:
            list(cluster.run(with_another_worker(), directory, silent))
        assert numba in str(caught.value)
        assert "LPPM_SIM_KERNELS" in str(caught.value)
        assert caught.value.exit_code == 2
        started.add({"PYTHONPATH": f"{other.parent}{os.pathsep}{ROOT}"})
        with raises_code(RequestError, "unfit-worker") as refusal:
            run(scenario, tmp_path / "run", dask=started.address)
    assert str(refusal.value).startswith(f"2 of 3 workers of {started.address} ")
    assert numba in str(refusal.value)
    assert "99.0" in str(refusal.value)


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="needs a path that each process resolves differently")
def test_workers_that_cannot_see_the_folder_are_refused(
    make_scenario: MakeScenario, tmp_path: Path, two: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with raises_code(RequestError, "unfit-worker") as error:
        run(make_scenario(), "/proc/self/cwd/run", dask=two.address)
    assert str(error.value).startswith("2 of 2 workers ")
    assert "/proc/self/cwd/run" in str(error.value)


def test_workers_with_an_outdated_component_are_refused(faulty: Any, tmp_path: Path, two: Machines) -> None:
    """The component changes after the workers have imported it; this process imports the new version."""
    run(faulty("raise", 0), tmp_path / "before", dask=two.address)
    (path,) = tmp_path.glob("faulty_*.py")
    path.write_text(path.read_text() + "\n# changed\n")
    sys.modules.pop(path.stem)
    with raises_code(RequestError, "unfit-worker") as error:
        run(faulty("raise", 0), tmp_path / "after", dask=two.address)
    assert re.match(r"\d of 2 workers ", str(error.value))
    assert f"{path.stem}:Faulty: {path}" in str(error.value)


def test_an_unreachable_scheduler_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REACH_S", 0.5)
    for address in ("tcp://127.0.0.1:9", "pigeon://home"):
        with raises_code(RequestError, "scheduler-unreachable") as error:
            Cluster(address)
        assert repr(address) in str(error.value)
    with raises_code(RequestError, "invalid-scheduler-file") as error:
        Cluster(str(tmp_path / "none.json"))
    assert "none.json" in str(error.value)
    with raises_code(RequestError, "exclusive-options") as error:
        Cluster("tcp://127.0.0.1:9", 3)
    assert "tcp://127.0.0.1:9" in str(error.value)


def test_a_missing_dask_is_reported_with_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with raises_code(RequestError, "missing-extra") as error:
        Cluster("local")
    assert "pip install 'lppm-sim[dask]'" in str(error.value)


def test_a_run_waits_for_late_workers_and_reports_a_lost_scheduler(
    make_scenario: MakeScenario, tmp_path: Path, commands: CommandServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(connection, "REACH_S", 2.0)
    directory, chunks = begun(make_scenario(**SMALL, lppms=["SP-Exp"], replications=12), tmp_path / "run")
    with machines(tmp_path, commands, 0) as started:
        notices: list[str] = []

        def start_worker(line: str) -> None:
            notices.append(line)
            started.add(wait=False)

        with closing(Cluster(started.address, notify=start_worker)) as cluster:
            ends = cluster.run(chunks, directory, silent)
            assert isinstance(next(ends), Done)
            assert started.address in notices[0]
            assert len(notices) == 1, "the notice is repeated at long intervals"
            started.scheduler.end()
            with raises_code(RunError, "scheduler-lost") as error:
                list(ends)
    assert started.address in str(error.value)
    assert directory.parts()


def group(leader: int) -> list[int]:
    """Return the running processes of a group."""
    words = ["ps", "-e", "-o", "pgid=,pid=,stat="]
    listed = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    rows = [line.split() for line in listed.stdout.splitlines()]
    return [int(pid) for pgid, pid, stat in rows if int(pgid) == leader and not stat.startswith("Z")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "stop",
    [lambda driver: driver.kill_group(signal.SIGINT), lambda driver: os.kill(driver.pid, signal.SIGKILL)],
    ids=["Ctrl-C", "kill"],
)
def test_a_local_cluster_ends_with_its_driver_and_resumes_to_the_same_bytes(
    stop: Callable[[ServedProcess], None], tmp_path: Path, gated: Gated, commands: CommandServer
) -> None:
    words = [*gated.command, "--dask", "local", "--workers", "1"]
    gate = Gate(tmp_path / "gate", tmp_path / "run")
    with commands.running(*words, folder=tmp_path, environment=gate.environment) as driver:
        until(lambda: gate.waiting() == 1)
        stop(driver)
        errors = driver.wait()
        until(lambda: not group(driver.pid))
    gate.open()
    if driver.returncode == 1:
        assert re.search(rf"interrupted; \d+ of {CHUNKS} chunks are finished and kept in run; ", errors)
        assert f"resume with: lppm-sim {shlex.join(words)}\n" in errors
        assert "Traceback" not in errors
        assert "distributed" not in errors
    else:
        assert driver.returncode == -signal.SIGKILL
    assert 0 < len(list((tmp_path / "run" / "events").glob("*.parquet"))) < CHUNKS, "stopped in the middle"
    run(gated.scenario, tmp_path / "run")
    assert files(tmp_path / "run" / "events") == files(gated.whole / "events")


@pytest.mark.slow
def test_a_killed_driver_leaves_a_remote_cluster_usable(
    tmp_path: Path, two: Machines, gated: Gated, commands: CommandServer
) -> None:
    gate = Gate(two.gate, tmp_path / "run")
    with commands.running(*gated.command, "--dask", two.address, folder=tmp_path) as driver:
        until(lambda: gate.waiting() == 2)
    assert driver.returncode == -signal.SIGKILL
    gate.open()
    until(lambda: two.tasks() == 0)
    assert two.count() == 2
    run(gated.scenario, tmp_path / "run", dask=two.address)
    assert files(tmp_path / "run" / "events") == files(gated.whole / "events")
