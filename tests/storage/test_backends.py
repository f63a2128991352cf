"""Storage back ends: folders and URLs give the same guarantees and the same messages."""

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
from tests.support import a_manifest, manifest_content, raises_code


class Faulty(MemoryFileSystem):  # type: ignore[misc]
    """A file system with renames, in which a chosen step fails."""

    protocol = "faulty"
    store: dict[str, Any] = {}
    faults: dict[str, Exception] = {}

    def _fail_at(self, step: str) -> None:
        if step in self.faults:
            raise self.faults[step]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        # Write half before the fault, like a disk that becomes full.
        super().pipe_file(path, value[: len(value) // 2])
        self._fail_at("put")
        super().pipe_file(path, value)

    def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
        self._fail_at("move")
        self.store[path2] = self.store.pop(path1)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> Any:
        self._fail_at("read")
        return super().cat_file(path, start, end)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        self._fail_at("list")
        return super().ls(path, detail)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(MemoryFileSystem._strip_protocol(path.removeprefix("faulty://")))


@pytest.fixture
def faults() -> Iterator[dict[str, Exception]]:
    """Return the exceptions to raise, by step."""
    register_implementation("faulty", Faulty, clobber=True)
    yield Faulty.faults
    Faulty.faults.clear()
    Faulty.store.clear()


@pytest.mark.parametrize("step", ["put", "move"])
@pytest.mark.parametrize(
    ("fault", "code", "cause"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "disk-full", "No space left on device."),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "disk-full", "Disk quota exceeded."),
        (PermissionError("Access Denied."), "file-error", "Access Denied."),
        (RuntimeError("could not connect to the endpoint"), "file-error", "could not connect to the endpoint."),
        (NotImplementedError(), "file-error", "NotImplementedError."),
    ],
)
def test_a_failed_write_is_reported_and_loses_no_file(
    faults: dict[str, Exception], step: str, fault: Exception, code: str, cause: str
) -> None:
    place = storage_at("faulty://run")
    place.write("events/a", b"before")
    faults[step] = fault
    for name in ("a", "b"):
        with raises_code(RunError, code) as error:
            place.write(f"events/{name}", b"afterwards")
        assert f"faulty://run/events/{name}: {cause}" in str(error.value)
    assert place.names("events") == ["a"]
    assert place.read("events/a") == b"before"
    faults.clear()
    place.write("events/b", b"afterwards")
    assert place.read("events/b") == b"afterwards"


def test_a_network_failure_is_not_reported_as_a_damaged_part(faults: dict[str, Exception]) -> None:
    run = RunDirectory.create("faulty://run")
    run.write_part("a", pa.Table.from_pylist([], schema=EVENTS))
    faults["read"] = TimeoutError("timed out")
    with raises_code(RunError, "file-error") as error:
        run.check_parts(thorough=False)
    assert "faulty://run/events/a.parquet: timed out." in str(error.value)
    faults["list"] = TimeoutError("timed out")
    with raises_code(RunError, "file-error") as error:
        run.parts()
    assert "faulty://run/events: timed out." in str(error.value)


@pytest.mark.parametrize(("protocol", "driver"), [("s3", " s3fs"), ("gs", " gcsfs"), ("memory", "")])
def test_missing_fsspec_is_reported_with_the_package(
    monkeypatch: pytest.MonkeyPatch, protocol: str, driver: str
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with raises_code(RequestError, "missing-extra") as error:
        RunDirectory.create(f"{protocol}://bucket/run")
    assert str(error.value).startswith(f"{protocol}://bucket/run ")
    assert str(error.value).endswith(f" pip install 'lppm-sim[cloud]'{driver}")


def test_a_missing_driver_is_reported_with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with raises_code(RequestError, "missing-extra") as error:
        RunDirectory.open("gs://bucket/run")
    assert str(error.value).startswith("gs://bucket/run ")
    assert str(error.value).endswith(" pip install 'lppm-sim[cloud]' gcsfs")


def test_an_unsupported_url_scheme_is_refused() -> None:
    with raises_code(RequestError, "unsupported-url") as error:
        RunDirectory.create("carrier-pigeon://home/run")
    assert "carrier-pigeon://" in str(error.value)


def test_a_folder_needs_no_fsspec(tmp_path: Path) -> None:
    script = (
        "import sys; from sim.storage.run_directory import RunDirectory as R; "
        "from sim.storage.manifest import RunManifest; run = R.create(sys.argv[1]); "
        f"run.write_manifest(RunManifest.of({manifest_content()})); R.open(sys.argv[1]); print('fsspec' in sys.modules)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "run")]
    assert subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.strip() == "False"


def test_a_file_url_is_the_folder(tmp_path: Path) -> None:
    assert storage_at(f"file://{tmp_path}/a run") == Folder(tmp_path / "a run") == storage_at(tmp_path / "a run")
    assert RunDirectory.create(f"file://{tmp_path}/a run").path == tmp_path / "a run"


def a_run(place: str | Path) -> RunDirectory:
    """Write a run with one row."""
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
    local, remote = a_run(tmp_path / "run"), a_run("memory://drawn")
    paths, files = plots.write_figures(Result(local)), plots.write_figures(Result(remote))
    assert [str(file) for file in files] == [f"memory://drawn/figures/{path.name}" for path in paths]
    assert [file.read_bytes() for file in files] == [path.read_bytes() for path in paths]


def test_a_run_under_a_url_is_exported_into_a_file(tmp_path: Path) -> None:
    run = a_run("memory://exported")
    done = export(run, tmp_path / "events.parquet", "parquet")
    assert done.hint.startswith("memory://exported/manifest.json ")
    assert pd.read_parquet(done.path)["user"].tolist() == ["ann"]
    with raises_code(RequestError, "not-a-local-file") as error:
        export(run, "memory://exported/all.csv", "csv")
    assert "memory://exported/all.csv" in str(error.value)


def test_a_url_converted_to_a_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with raises_code(RequestError, "incomplete-url") as error:
        RunDirectory.create(Path("s3://bucket/run"))
    assert str(error.value).startswith("s3:/bucket/run ")
    assert " s3://bucket/run " in str(error.value)
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
