"""Storage back ends for tests: a folder, memory, a file system with renames, and an object store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sim.storage.run_directory import RunDirectory
from tests.support import a_manifest


@pytest.fixture(scope="session")
def object_store() -> Iterator[str]:
    """Start an object store on this machine and return the URL of a bucket."""
    server = pytest.importorskip("moto.server", reason="no object store to try: pip install 'moto[server]' s3fs")
    pytest.importorskip("s3fs", reason="no driver of object stores to try: pip install s3fs")
    import fsspec  # type: ignore[import-untyped]

    service = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    service.start()
    host, port = service.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        # Not `mkdir`: if a slow request is repeated, the bucket exists.
        fsspec.filesystem("s3").makedirs("studies", exist_ok=True)
        yield "s3://studies"
    fsspec.filesystem("s3").clear_instance_cache()
    service.stop()


@pytest.fixture
def shelf(tmp_path: Path) -> str:
    """Return the URL of a file system with renames, in which incomplete files are visible, like sftp://."""
    import fsspec
    from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

    class Shelf(LocalFileSystem):  # type: ignore[misc]
        protocol = "shelf"

        @classmethod
        def _strip_protocol(cls, path: Any) -> str:
            return str(LocalFileSystem._strip_protocol(str(path).removeprefix("shelf://")))

    fsspec.register_implementation("shelf", Shelf, clobber=True)
    return f"shelf://{tmp_path}"


@pytest.fixture(params=["folder", "memory", "shelf", "object store"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the parent folder or URL of runs, for each back end."""
    if request.param == "memory":
        from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

        yield f"memory://{tmp_path.name}"
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]
    elif request.param == "folder":
        yield str(tmp_path)
    elif request.param == "shelf":
        yield request.getfixturevalue("shelf")
    else:
        yield f"{request.getfixturevalue('object_store')}/{tmp_path.name}"


@pytest.fixture
def run(home: str) -> RunDirectory:
    """Return an empty run in each back end."""
    run = RunDirectory.create(f"{home}/run")
    run.write_manifest(a_manifest())
    return run


@pytest.fixture
def local(tmp_path: Path) -> RunDirectory:
    """Return an empty run in a folder."""
    run = RunDirectory.create(tmp_path / "run")
    run.write_manifest(a_manifest())
    return run
