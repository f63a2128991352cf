from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from fsspec import register_implementation  # type: ignore[import-untyped]
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

from sim import plots
from sim.analysis.result import Result
from sim.storage.backends import storage_at
from sim.storage.backends.folder import Folder
from sim.storage.backends.remote import Remote
from sim.storage.errors import RequestError, RunError
from sim.storage.event_schema import EVENTS
from sim.storage.export import export
from sim.storage.run_directory import RunDirectory
from tests.support import a_manifest, manifest_content


class Faulty(MemoryFileSystem):  # type: ignore[misc]
    """A file system that renames, and in which a chosen step goes wrong."""

    protocol = "faulty"
    store: dict[str, Any] = {}
    faults: dict[str, Exception] = {}

    def _meet(self, step: str) -> None:
        if step in self.faults:
            raise self.faults[step]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        # Half of it is written before the fault, as on a disk that runs full.
        super().pipe_file(path, value[: len(value) // 2])
        self._meet("put")
        super().pipe_file(path, value)

    def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
        self._meet("move")
        self.store[path2] = self.store.pop(path1)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> Any:
        self._meet("read")
        return super().cat_file(path, start, end)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        self._meet("list")
        return super().ls(path, detail)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(MemoryFileSystem._strip_protocol(path.removeprefix("faulty://")))


@pytest.fixture
def faults() -> Iterator[dict[str, Exception]]:
    register_implementation("faulty", Faulty, clobber=True)
    yield Faulty.faults
    Faulty.faults.clear()
    Faulty.store.clear()


@pytest.mark.parametrize("step", ["put", "move"])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device. Free some space and run again: "),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "Disk quota exceeded. Free some space and run again: "),
        (PermissionError("Access Denied."), "Access Denied."),
        (RuntimeError("could not connect to the endpoint"), "could not connect to the endpoint."),
        (NotImplementedError(), "NotImplementedError."),
    ],
)
def test_a_write_that_fails_is_named_and_loses_nothing(
    faults: dict[str, Exception], step: str, fault: Exception, said: str
) -> None:
    place = storage_at("faulty://run")
    place.write("events/a", b"before")
    faults[step] = fault
    for name in ("a", "b"):
        with pytest.raises(RunError) as caught:
            place.write(f"events/{name}", b"afterwards")
        assert str(caught.value).startswith(f"cannot write faulty://run/events/{name}: {said}")
    assert place.names("events") == ["a"]
    assert place.read("events/a") == b"before"
    faults.clear()
    place.write("events/b", b"afterwards")
    assert place.read("events/b") == b"afterwards"


def test_a_network_that_fails_is_not_taken_for_a_torn_part(faults: dict[str, Exception]) -> None:
    run = RunDirectory.create("faulty://run")
    run.write_part("a", pa.Table.from_pylist([], schema=EVENTS))
    faults["read"] = TimeoutError("timed out")
    with pytest.raises(RunError, match=r"^cannot read faulty://run/events/a.parquet: timed out\.$"):
        run.check_parts(thorough=False)
    faults["list"] = TimeoutError("timed out")
    with pytest.raises(RunError, match=r"^cannot list faulty://run/events: timed out\.$"):
        run.parts()


@pytest.mark.parametrize(("protocol", "driver"), [("s3", " s3fs"), ("gs", " gcsfs"), ("memory", "")])
def test_fsspec_that_is_missing_is_asked_for(monkeypatch: pytest.MonkeyPatch, protocol: str, driver: str) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(RequestError) as caught:
        RunDirectory.create(f"{protocol}://bucket/run")
    assert str(caught.value) == (
        f"{protocol}://bucket/run needs fsspec, which is not there: pip install 'lppm-sim[cloud]'{driver}"
    )


def test_a_driver_that_is_missing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(RequestError, match=r"gs://bucket/run needs a driver for gs://.*: pip install .*cloud.* gcsfs$"):
        RunDirectory.open("gs://bucket/run")


def test_a_protocol_that_nobody_knows_is_refused() -> None:
    with pytest.raises(RequestError, match="nothing is known that reaches carrier-pigeon://"):
        RunDirectory.create("carrier-pigeon://home/run")


def test_a_folder_needs_no_fsspec(tmp_path: Path) -> None:
    script = (
        "import sys; from sim.storage.run_directory import RunDirectory as R; "
        "from sim.storage.manifest import RunManifest; run = R.create(sys.argv[1]); "
        f"run.write_manifest(RunManifest.of({manifest_content()})); R.open(sys.argv[1]); print('fsspec' in sys.modules)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "run")]
    assert subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.strip() == "False"


def test_a_url_of_a_folder_is_that_folder(tmp_path: Path) -> None:
    assert storage_at(f"file://{tmp_path}/a run") == Folder(tmp_path / "a run") == storage_at(tmp_path / "a run")
    assert RunDirectory.create(f"file://{tmp_path}/a run").path == tmp_path / "a run"


def a_run(place: str | Path) -> RunDirectory:
    run = RunDirectory.create(place)
    run.write_manifest(a_manifest())
    row = dict.fromkeys(EVENTS.names, 1) | {
        "event": "query",
        "shift": None,
        "identity": None,
        "user": "ann",
        "lppm": "SP",
        "attack": "bayes",
    }
    run.write_part("p", pa.Table.from_pylist([row], schema=EVENTS))
    run.write_csv("points.csv", pd.DataFrame({"point": [1]}))
    return run


def test_figures_are_drawn_under_a_url_as_in_a_folder(tmp_path: Path) -> None:
    here, there = a_run(tmp_path / "run"), a_run("memory://drawn")
    paths, files = plots.write_figures(Result(here)), plots.write_figures(Result(there))
    assert [str(file) for file in files] == [f"memory://drawn/figures/{path.name}" for path in paths]
    assert [file.read_bytes() for file in files] == [path.read_bytes() for path in paths]


def test_a_run_under_a_url_is_exported_into_a_file(tmp_path: Path) -> None:
    run = a_run("memory://exported")
    done = export(run, tmp_path / "events.parquet", "parquet")
    assert done.hint.startswith("memory://exported/manifest.json ")
    assert pd.read_parquet(done.path)["user"].tolist() == ["ann"]
    with pytest.raises(RequestError, match=r"must be a file on this machine, got memory://exported/all\.csv"):
        export(run, "memory://exported/all.csv", "csv")


def test_a_url_that_was_made_a_path_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match=r"^s3:/bucket/run is half a URL: write s3://bucket/run, as text"):
        RunDirectory.create(Path("s3://bucket/run"))
    assert list(tmp_path.iterdir()) == []
    assert storage_at("C:/runs/1") == Folder(Path("C:/runs/1"))


def test_names_below_a_url() -> None:
    assert storage_at("memory://run/") == storage_at("memory://run")
    assert storage_at("memory://run/").describe("events/a") == "memory://run/events/a"
    assert storage_at("memory://").describe("a") == "memory://a"


def test_passwords_are_not_shown() -> None:
    place = Remote("sftp://ann:secret:@host/runs/1")
    assert place.describe("manifest.json") == "sftp://ann:***@host/runs/1/manifest.json"
    assert storage_at("sftp://ann@host/runs/1").describe() == "sftp://ann@host/runs/1"
