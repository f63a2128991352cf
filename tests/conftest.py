"""Fixtures of all tests: small scenarios, the real data sets, a browser."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from sim.components import user_cache
from sim.components.files import VARIABLE
from sim.inference import kernels
from sim.scenario.models import Scenario
from tests.fork_server import forked_workers, stop_server
from tests.support import BASE, DATA, SMALL, MakeScenario, numpy_kernels

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# No deadlines, since machines are slow at times. In CI the examples are the same every time.
settings.register_profile("lppm-sim", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("lppm-sim")


@pytest.fixture(scope="session", autouse=True)
def _environment() -> Iterator[None]:
    """Set the folder of the real data for tests and their processes, and disable the user's cache of channels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(user_cache.VARIABLE, "off")
        patch.setenv("SOURCE_DATE_EPOCH", "1700000000")  # two runs at midnight have the same metadata
        patch.setenv("LPPM_SIM_WORKERS", "1")  # no processes for small runs; tests that need them set --workers
        if DATA.is_dir():
            patch.setenv(VARIABLE, str(DATA))
        yield


@pytest.fixture(scope="session", autouse=True)
def _nothing_synced() -> Iterator[None]:
    """Disable fsync: durability is not needed in tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _handle: None)
        yield


@pytest.fixture(scope="module")
def plain_kernels() -> Iterator[None]:
    """Use NumPy here and in child processes, where importing numba would take most of the time."""
    with numpy_kernels(), pytest.MonkeyPatch.context() as patch:
        patch.setenv(kernels.VARIABLE, "plain")
        yield


@pytest.fixture(scope="session")
def _fork_server_process() -> Iterator[None]:
    yield
    stop_server()


@pytest.fixture(scope="module")
def fork_server(_fork_server_process: None) -> Iterator[None]:
    """Fork the worker processes of the module from a server that has imported the package."""
    with forked_workers():
        yield


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt: processes started in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def make_scenario() -> MakeScenario:
    """Return a function that makes a small scenario with some parts replaced."""

    def make(**changes: Any) -> Scenario:
        data: dict[str, Any] = {
            "name": "small",
            "seed": 3,
            "replications": 1,
            "world": {"grid": {"kind": "rectangle", "rows": 4, "cols": 5, "width_km": 5.0, "height_km": 4.0}},
            "users": {
                "count": 3,
                "queries": 25,
                "mobility": {"kind": "favourites", "places": 4},
            },
            "training": {"others": {"kind": "others", "count": 8, "queries": 30}},
            "lppms": ["SP-Exp", "PEB-LH"],
            "attacks": ["sporadic", "markov"],
        }
        return Scenario.model_validate(data | changes)

    return make


@pytest.fixture(scope="module", params=["plain", "compiled"])
def numpy_and_numba(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run every test of a module twice: with NumPy and with numba."""
    if request.param == "compiled":
        assert kernels.compiled() is not None, "numba is not installed: make .venv/ready-to-develop"
        yield
    else:
        with numpy_kernels():
            yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder of real data sets, or skip."""
    if not DATA.is_dir():
        pytest.skip(f"no real data sets in {DATA}: set {VARIABLE} to their folder")
    return DATA


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder with a small scenario, and return its file name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL)
    return Path("small.yaml")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a small scenario file with some top-level keys replaced."""

    def write_file(text: str = BASE, **changes: str | None) -> Path:
        lines = [line for line in text.strip().splitlines() if line.split(":")[0] not in changes]
        lines += [f"{key}: {value}" for key, value in changes.items() if value is not None]
        path = tmp_path / "small.yaml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write_file


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Return a headless browser, or skip; it is closed with the module, because its event loop runs in this thread."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no browser found: install the package `chromium`")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: make .venv/ready-to-develop")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def browser_page(chromium: Browser) -> Iterator[Page]:
    """Return an empty page; at the end, check that it logged no errors and requested nothing but its own file."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB", timezone_id="UTC")
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda entry: problems.append(entry.text) if entry.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: None if request.is_navigation_request() else problems.append(request.url))
    yield page
    context.close()
    assert problems == []
