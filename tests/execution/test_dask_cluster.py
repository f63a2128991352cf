"""Dask: real schedulers and worker processes leave the same bytes as one process, whoever dies meanwhile."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import distributed
import pytest

import sim
from sim.components.permission import CodeAccess
from sim.errors import UserError
from sim.execution.dask import connection, waiting
from sim.execution.dask.cluster import WINDOW, Cluster
from sim.execution.failures import FailedChunks
from sim.execution.plan import Chunk
from sim.execution.pool import Done, Failure
from sim.scenario.models import Scenario
from sim.simulation.progress import Tick
from sim.storage.errors import RequestError, RunError
from sim.storage.run_directory import RunDirectory
from tests.storage.conftest import object_store  # noqa: F401
from tests.support import INTERRUPTIBLE, ROOT, MakeScenario, done, ending, files, plan, refused, until

pytestmark = pytest.mark.usefixtures("plain_kernels", "fork_server")

OWN = '''
import os, resource, signal
from pathlib import Path
from sim.lppm.designs.identity import Identity


class Faulty(Identity):
    """Fails as it is told: whenever it finds an order to, or always."""

    uses_prior = True

    def __init__(self, *, world, how, folder, always=False):
        super().__init__(n_cells=world.grid.n_cells)
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
                order.unlink()  # one worker alone gets it
            except FileNotFoundError:
                continue
            return True
        return False
'''

LONG = """
name: long
replications: 10
world: {grid: {kind: rectangle, rows: 6, cols: 6, width_km: 6, height_km: 6}}
users: {count: 4, queries: 90, mobility: favourites}
lppms: [PEB-Exp]
"""


class Machines:
    """A scheduler and workers, each a process, as started by hand."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.file = folder / "scheduler.json"
        self._folder, self._stack = folder, stack
        words = ("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-jupyter")
        self.scheduler = self._start(*words, "--scheduler-file", str(self.file))
        until(lambda: self.file.exists() and self.file.stat().st_size > 0)
        self.address: str = json.loads(self.file.read_text())["address"]

    def add(
        self, settings: dict[str, str] | None = None, *, wait: bool = True, nanny: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start one more worker, in a folder of its own, with changes to its environment."""
        before = self.count()
        words = ("worker", self.address, "--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard")
        worker = self._start(*words, "--nanny" if nanny else "--no-nanny", settings=settings)
        if wait:
            until(lambda: self.count() > before)
        return worker

    def count(self) -> int:
        """Return how many workers there are."""
        return len(self.ask(lambda client: client.nthreads()))

    def ask(self, question: Callable[[Any], Any]) -> Any:
        """Let a client of the scheduler find something out."""
        with distributed.Client(self.address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            return question(client)

    def _start(self, *words: str, settings: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *words],
            cwd=self._folder,
            env=os.environ | (settings or {}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._stack.callback(process.wait, 60)
        self._stack.callback(kill_group, process)
        return process


def kill_group(process: subprocess.Popen[Any]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@contextmanager
def machines(folder: Path, workers: int) -> Iterator[Machines]:
    with ExitStack() as stack:
        found = Machines(folder, stack)
        for _ in range(workers):
            found.add(wait=False)
        until(lambda: found.count() == workers)
        yield found


@pytest.fixture(scope="module")
def two(plain_kernels: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Return a scheduler with two workers, which nobody harms."""
    with machines(tmp_path_factory.mktemp("cluster"), 2) as found:
        yield found


@pytest.fixture
def faulty(make_scenario: MakeScenario, tmp_path: Path) -> Any:
    """Return a function that makes a scenario which fails so often, in some way."""
    name = f"faulty_{tmp_path.name}"  # workers that live longer than a test keep what they have imported
    (tmp_path / f"{name}.py").write_text(OWN)

    def make(how: str, times: int, always: bool = False, **changes: Any) -> Scenario:
        for number in range(times):
            (tmp_path / f"order-{number}").touch()
        design = {"kind": f"{name}:Faulty", "how": how, "folder": str(tmp_path), "always": always}
        own = {"name": "faulty", "belief": "fixed_profile", "design": design}
        return make_scenario(**({"lppms": ["SP-Exp", own], "replications": 3} | changes)).at(
            tmp_path, None, CodeAccess(allowed=True, beside=tmp_path)
        )

    return make


def run(scenario: Scenario, out: Path | str, **more: Any) -> sim.Result:
    """Run a scenario with a chunk for each replication."""
    return sim.run(scenario, out=out, figures=False, chunk_queries=1, **more)


def begun(scenario: Scenario, out: Path) -> tuple[RunDirectory, list[Chunk]]:
    """Return a run that has its manifest and nothing else, and its chunks."""
    run(scenario, out / "finished")
    return begun_as(RunDirectory.open(out / "finished"), out / "begun"), plan(scenario)


def begun_as(finished: RunDirectory, out: Path) -> RunDirectory:
    """Return a run that has the manifest of a finished one and nothing else."""
    with finished.open_part(finished.parts()[0]) as part:
        directory = replace(RunDirectory.create(out), digest=part.run)
    directory.write_manifest(finished.manifest())
    return directory


def begun_alone(scenario: Scenario, out: Path) -> tuple[RunDirectory, list[Chunk]]:
    """Return a run of a scenario that no process survives: it has its manifest and nothing else."""

    class Nobody:
        def run(self, chunks: Iterable[Chunk], directory: RunDirectory, tick: Tick) -> Iterator[Done | Failure]:
            return (Failure(chunk, "not simulated") for chunk in chunks)

        def close(self) -> None: ...

    with pytest.raises(FailedChunks):
        run(scenario, out / "failed", pool=Nobody())
    directory = RunDirectory.create(out / "begun")
    directory.write_manifest(RunDirectory.open(out / "failed").manifest())
    return directory, plan(scenario)


@pytest.fixture(scope="module")
def whole(plain_kernels: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of a long scenario, in this process."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "long.yaml").write_text(LONG)
    run(sim.load(folder / "long.yaml"), folder / "run")
    return folder / "run"


@contextmanager
def closing(cluster: Cluster) -> Iterator[Cluster]:
    try:
        yield cluster
    finally:
        cluster.close()


def silent(_: object) -> None:
    """Do nothing."""


def test_workers_elsewhere_leave_the_same_bytes(
    make_scenario: MakeScenario, tmp_path: Path, two: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # workers are in another folder
    scenario = make_scenario(
        lppms=["SP-Exp", "PEB-LH"],
        replications=3,
        sweep={"lppms.*.design.epsilon_per_km": [0.5, 2]},
        record={"snapshots": [5]},
    )
    run(scenario, "here")
    run(scenario, "there", dask=two.address)
    run(scenario, "by_file", dask=str(two.file))
    assert files(tmp_path / "here") == files(tmp_path / "there") == files(tmp_path / "by_file")


def test_a_local_cluster_does_rounds_and_counts_every_query(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications={"until_half_width_km": 0.3, "at_most": 12})
    run(scenario, tmp_path / "there", dask="local", workers=2)
    run(scenario, tmp_path / "here")
    assert files(tmp_path / "here") == files(tmp_path / "there")


def test_a_local_worker_has_one_thread_and_one_for_blas_and_ticks_add_up(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    directory, chunks = begun(make_scenario(replications=2), tmp_path)
    counted: list[int] = []
    with closing(Cluster("local", 2)) as cluster:
        assert {type(end) for end in cluster.run(chunks, directory, counted.append)} == {Done}
        client = cluster._client
        assert sorted(client.nthreads().values()) == [1, 1]
        threads = client.run(lambda: [os.environ[f"{name}_NUM_THREADS"] for name in ("OMP", "OPENBLAS", "MKL")])
    assert list(threads.values()) == [["1"] * 3] * 2
    assert sum(counted) == 2 * 2 * 3 * 25


def test_memory_is_seen_by_workers_of_this_process_alone(
    make_scenario: MakeScenario, tmp_path: Path, two: Machines
) -> None:
    scenario = make_scenario(replications=2)
    here = run(scenario, "memory://here").events()
    with distributed.LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
    ) as inside:
        there = run(scenario, "memory://there", dask=inside.scheduler_address)
    assert there.events().equals(here)
    with pytest.raises(RequestError, match="memory://refused is in the memory of this process: workers of a cluster"):
        run(scenario, "memory://refused", dask=two.address)


def test_a_run_goes_to_an_object_store(
    make_scenario: MakeScenario, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = request.getfixturevalue("object_store")
    scenario = make_scenario(replications=3, sweep={"lppms.*.design.epsilon_per_km": [0.5, 2]}, lppms=["SP-Exp"])
    run(scenario, f"{store}/{tmp_path.name}", dask="local", workers=2)
    run(scenario, tmp_path / "here")
    here, there = RunDirectory.open(tmp_path / "here"), RunDirectory.open(f"{store}/{tmp_path.name}")
    assert there.parts() == here.parts()
    for part in here.parts():
        assert there.part_path(part).read_bytes() == here.part_path(part).read_bytes()
    assert there.file("summary.csv").read_bytes() == here.file("summary.csv").read_bytes()


broken_off = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)
"""Where workers die, Dask may leave their socket, and nothing else, to the garbage collector."""


@broken_off
def test_a_worker_that_dies_loses_nothing(faulty: Any, tmp_path: Path) -> None:
    run(faulty("die", 2), tmp_path / "died", dask="local", workers=2)
    assert not list(tmp_path.glob("order-*"))
    run(faulty("die", 0), tmp_path / "lived")
    assert files(tmp_path / "died") == files(tmp_path / "lived")


@broken_off
def test_a_machine_that_dies_loses_nothing(tmp_path: Path, whole: Path) -> None:
    """A worker and its nanny are killed together, as when a machine goes down; another one takes over."""
    (tmp_path / "long.yaml").write_text(LONG)
    directory = begun_as(RunDirectory.open(whole), tmp_path / "begun")
    chunks = plan(sim.load(tmp_path / "long.yaml"))
    with machines(tmp_path, 1) as found:
        doomed = found.add(nanny=True)
        with closing(Cluster(found.address)) as cluster:
            ends = cluster.run(chunks, directory, silent)
            some = [next(ends), next(ends)]
            kill_group(doomed)
            some += ends
    assert {type(end) for end in some} == {Done}
    assert files(tmp_path / "begun" / "events") == files(whole / "events")


@broken_off
def test_a_chunk_that_kills_every_worker_is_reported_and_the_rest_finishes(faulty: Any, tmp_path: Path) -> None:
    sweep = {"lppms.faulty.design.how": ["nothing", "die", "nothing else", "nothing at all"]}
    scenario = faulty("nothing", 0, replications=1, sweep=sweep, always=True)
    with pytest.raises(FailedChunks) as caught:
        run(scenario, tmp_path / "run", dask="local", workers=2)
    assert [failure["error"] for failure in caught.value.failures] == ["its worker died 3 times"]
    assert caught.value.failures[0]["point"] == 1
    assert set(sim.Result.open(tmp_path / "run").events()["point"]) == {0, 2, 3}


def closed_nannies(cluster: Cluster) -> None:
    """End all workers of a local cluster and the nannies that would start them again."""
    for nanny in list(cluster._local.workers.values()):
        cluster._local.sync(nanny.close)


@broken_off
def test_a_local_cluster_that_loses_all_workers_is_started_again(tmp_path: Path, whole: Path) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    directory = begun_as(RunDirectory.open(whole), tmp_path / "begun")
    said: list[str] = []
    with closing(Cluster("local", 2, notify=said.append)) as cluster:
        closed_nannies(cluster)  # before the first worker is asked
        ends = cluster.run(plan(sim.load(tmp_path / "long.yaml")), directory, silent)
        some = [next(ends), next(ends)]
        closed_nannies(cluster)  # in the midst
        some += ends
    assert [type(end) for end in some] == [Done] * 10
    assert files(tmp_path / "begun" / "events") == files(whole / "events")
    assert (
        said
        == ["the local Dask cluster has lost all its workers: starting it again (1 of at most 5 times in a row)"] * 2
    )


@broken_off
def test_a_chunk_that_local_clusters_do_not_survive_is_reported_and_the_rest_finishes(
    faulty: Any, tmp_path: Path
) -> None:
    """The wait is so short that no nanny starts a worker again in time: the whole cluster is started anew."""
    sweep = {"lppms.faulty.design.how": ["nothing", "die", "nothing else"]}
    scenario = faulty("nothing", 0, replications=1, sweep=sweep, always=True)
    directory, chunks = begun_alone(scenario, tmp_path)
    said: list[str] = []
    with closing(Cluster("local", 1, notify=said.append)) as cluster:
        cluster._watch.timeout_s = 0.01
        ends = list(cluster.run(chunks, directory, silent))
    assert sorted(type(end).__name__ for end in ends) == ["Done", "Done", "Failure"]
    (failure,) = [end for end in ends if isinstance(end, Failure)]
    assert failure.chunk.point.index == 1
    assert failure.error.startswith("its worker died ")


@broken_off
def test_a_local_cluster_that_never_gets_a_worker_ends_the_run(
    make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real clusters, none of which ever has a worker, as on a machine too busy to start one."""
    monkeypatch.setattr("sim.execution.dask.cluster.MOST_LOSSES", 2)
    start = connection.start_local
    monkeypatch.setattr(connection, "start_local", lambda _workers: start(0))
    directory, chunks = begun_alone(make_scenario(), tmp_path)
    said: list[str] = []
    with (
        closing(Cluster("local", 1, notify=said.append, timeout_s=0.1)) as cluster,
        pytest.raises(RunError, match=r"lost all its workers 3 times .*run without --dask\. What is finished is k"),
    ):
        list(cluster.run(chunks, directory, silent))
    assert [re.findall(r"\d of at most \d", line) for line in said] == [["1 of at most 2"], ["2 of at most 2"]]


@broken_off
def test_workers_elsewhere_that_are_all_gone_are_waited_for_up_to_a_limit(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(waiting, "_REMIND_EVERY_S", 0.0)
    (tmp_path / "long.yaml").write_text(LONG)
    directory = begun_as(RunDirectory.open(whole), tmp_path / "begun")
    chunks = plan(sim.load(tmp_path / "long.yaml"))
    said: list[str] = []
    with machines(tmp_path, 0) as found:
        doomed = [found.add(), found.add()]
        with closing(Cluster(found.address, notify=said.append, timeout_s=5)) as cluster:
            ends = cluster.run(chunks, directory, silent)
            next(ends)
            for worker in doomed:
                kill_group(worker)
            with pytest.raises(
                RunError, match=r"has had no worker for \d+ s \(--dask-timeout\): start workers.* is kept"
            ):
                list(ends)
    assert len(said) >= 2, "it is said again and again"
    assert 0 < len(directory.parts()) < 10
    run(sim.load(tmp_path / "long.yaml"), tmp_path / "begun")
    assert files(tmp_path / "begun" / "events") == files(whole / "events")


def test_the_limit_of_the_wait_is_an_option(small: Path, two: Machines) -> None:
    assert "dask_timeout (--dask-timeout) limits the wait" in refused("run", small, "--dask-timeout", "5")
    assert "x>0" in refused("run", small, "--dask", two.address, "--dask-timeout", "0")
    with pytest.raises(RequestError, match=r"must be in \(0, inf\) seconds, got -1"):
        Cluster(two.address, timeout_s=-1)
    done("run", small, "--dask", two.address, "--dask-timeout", "60", "--no-figures")


def test_a_simulation_that_raises_is_reported(faulty: Any, tmp_path: Path, two: Machines) -> None:
    with pytest.raises(FailedChunks) as caught:
        run(faulty("raise", 1), tmp_path / "run", dask=two.address)
    (failure,) = caught.value.failures
    assert failure["error"] == "RuntimeError: something went <wrong>"
    assert "in __call__" in failure["traceback"]
    assert len(sim.Result.open(tmp_path / "run").events()) == 2 * 2 * 2 * 3 * 25, "the other two chunks are there"


def test_a_worker_that_cannot_write_ends_the_run_with_its_words(faulty: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot write .*: File too large") as caught:
        run(faulty("fill", 1), tmp_path / "run", dask="local", workers=1)
    assert caught.value.exit_code == 1


def test_few_chunks_are_under_way_at_a_time(make_scenario: MakeScenario, tmp_path: Path) -> None:
    directory, chunks = begun(make_scenario(replications=20), tmp_path)
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
            assert len(inside.scheduler.tasks) <= WINDOW * 2 + 1, "finished ones are forgotten"
    assert ended == 20
    assert most == WINDOW * 2


def test_workers_of_another_kind_are_refused_also_when_they_come_later(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    kernels_with_numba = f"numba {version('numba')}"
    other = tmp_path / "other" / "lppm_sim-99.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: lppm-sim\nVersion: 99.0\n")
    directory, chunks = begun(make_scenario(replications=12), tmp_path)
    with machines(tmp_path, 1) as found:

        def with_another_worker() -> Iterator[Chunk]:
            yield from chunks[:1]
            found.add({"LPPM_SIM_KERNELS": "numba"})
            yield from chunks[1:]

        other_kernels = f"its kernels are {kernels_with_numba}, the run is made with plain: see LPPM_SIM_KERNELS"
        with closing(Cluster(found.address)) as cluster:
            ends = cluster.run(with_another_worker(), directory, silent)
            with pytest.raises(UserError, match=f"a worker, cannot take part: {other_kernels}") as caught:
                list(ends)
        assert caught.value.exit_code == 2
        found.add({"PYTHONPATH": f"{other.parent}{os.pathsep}{ROOT}"})
        with pytest.raises(RequestError, match=f"2 of 3 workers of {found.address} cannot take part:") as refused:
            run(make_scenario(replications=2), tmp_path / "run", dask=found.address)
    assert other_kernels in str(refused.value)
    assert "it has version 99.0 of lppm-sim, the run is made by " in str(refused.value)


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="no folder here that each process sees as another")
def test_workers_that_do_not_see_the_folder_are_refused(
    make_scenario: MakeScenario, tmp_path: Path, two: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match=r"2 of 2 workers .*\n.*it does not see /proc/self/cwd/run: not a shared"):
        run(make_scenario(), "/proc/self/cwd/run", dask=two.address)


def test_workers_with_another_component_of_that_name_are_refused(faulty: Any, tmp_path: Path, two: Machines) -> None:
    """The workers have imported it; then it is changed, and this process has the new one."""
    run(faulty("raise", 0), tmp_path / "before", dask=two.address)
    (path,) = tmp_path.glob("faulty_*.py")
    path.write_text(path.read_text() + "\n# changed\n")
    sys.modules.pop(path.stem)
    with pytest.raises(RequestError, match=r"(?s)\d of 2 workers .*:Faulty: .* has changed since it was imported"):
        run(faulty("raise", 0), tmp_path / "after", dask=two.address)


def test_nobody_at_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REACH_S", 0.5)
    with pytest.raises(RequestError, match=r"no Dask scheduler can be reached at 'tcp://127.0.0.1:9' \(.*`dask sched"):
        Cluster("tcp://127.0.0.1:9")
    with pytest.raises(RequestError, match=r"no Dask scheduler can be reached at 'pigeon://home'"):
        Cluster("pigeon://home")
    with pytest.raises(RequestError, match=r"none\.json is no scheduler file \(FileNotFoundError"):
        Cluster(str(tmp_path / "none.json"))
    with pytest.raises(RequestError, match=r"the workers of tcp://127.0.0.1:9 are its own"):
        Cluster("tcp://127.0.0.1:9", 3)


def test_dask_that_is_missing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(RequestError, match=r"pip install 'lppm-sim\[dask\]'"):
        Cluster("local")


def test_workers_that_come_late_are_waited_for_and_a_scheduler_that_goes_is_told(
    make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(connection, "REACH_S", 2.0)
    directory, chunks = begun(make_scenario(replications=12), tmp_path)
    with machines(tmp_path, 0) as found:

        def come(line: str) -> None:
            said.append(line)
            found.add(wait=False)

        said: list[str] = []
        with closing(Cluster(found.address, notify=come)) as cluster:
            ends = cluster.run(chunks, directory, silent)
            assert isinstance(next(ends), Done)
            assert said[0].startswith(f"waiting for workers: the Dask scheduler at {found.address} has none; giving up")
            assert len(said) == 1, "it is said once in a while"
            found.scheduler.kill()
            with pytest.raises(RunError, match=rf"{found.address} .* What is finished is kept, and the same command"):
                list(ends)
    assert directory.parts()


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = ["run", "long.yaml", "-o", "run", "--no-figures", "--chunk-queries", "1", *words]
    return subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *command],
        cwd=folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def group(leader: int) -> list[int]:
    """Return the processes of a group that are alive."""
    words = ["ps", "-e", "-o", "pgid=,pid=,stat="]
    listed = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    rows = [line.split() for line in listed.stdout.splitlines()]
    return [int(pid) for pgid, pid, stat in rows if int(pgid) == leader and not stat.startswith("Z")]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_local_cluster_ends_with_its_driver_and_goes_on_to_the_same_bytes(
    how: signal.Signals, tmp_path: Path, whole: Path
) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    events = tmp_path / "run" / "events"
    with ending(start(tmp_path, "--dask", "local", "--workers", "2")) as driver:
        until(lambda: list(events.glob("*.parquet")))
        if how is signal.SIGINT:
            os.killpg(driver.pid, how)  # a terminal tells all of them
        else:
            driver.kill()
        _, said = driver.communicate(timeout=120)
    if how is signal.SIGINT:
        assert driver.returncode == 1
        assert re.search(r"interrupted; \d+ of 10 chunks are finished and kept in run; .* start again", said)
        assert "resume with: lppm-sim run long.yaml -o run" in said
        assert "Traceback" not in said
        assert "distributed" not in said
    until(lambda: not group(driver.pid))
    assert 0 < len(list(events.glob("*.parquet"))) < 10, "it was stopped in the middle"
    run(sim.load(tmp_path / "long.yaml"), tmp_path / "run")
    assert files(tmp_path / "run" / "events") == files(whole / "events")


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_a_cluster_to_others(tmp_path: Path, two: Machines, whole: Path) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    with ending(start(tmp_path, "--dask", two.address)) as driver:
        until(lambda: list((tmp_path / "run" / "events").glob("*.parquet")))
        driver.kill()
        driver.communicate(timeout=60)
    until(lambda: two.ask(lambda client: client.run_on_scheduler(lambda dask_scheduler: not dask_scheduler.tasks)))
    assert two.count() == 2
    run(sim.load(tmp_path / "long.yaml"), tmp_path / "run", dask=two.address)
    assert files(tmp_path / "run" / "events") == files(whole / "events")


def test_a_failure_is_no_end_of_the_others(faulty: Any, tmp_path: Path, two: Machines) -> None:
    directory, chunks = begun(faulty("raise", 0), tmp_path)
    faulty("raise", 1)
    with closing(Cluster(two.address)) as cluster:
        ends = list(cluster.run(chunks, directory, silent))
        assert sorted(type(end).__name__ for end in ends) == ["Done", "Done", "Failure"]
        (failure,) = [end for end in ends if isinstance(end, Failure)]
        assert failure.lppm == "faulty"
        assert list(cluster.run([failure.chunk], directory, silent)) == [Done(failure.chunk)], "no order is left"
