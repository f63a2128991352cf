"""Live view of a run: the page updates during the simulation, and only this machine can access it."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sim
from sim import report
from sim.analysis.result import Result
from sim.errors import InputError, UserError
from sim.report.live.pages import LivePages
from sim.report.live.progress import LiveProgress
from sim.report.live.server import Server, served
from sim.simulation.progress import Silent
from tests.support import INTERRUPTIBLE, MakeScenario, done, ending, files, lppm_sim, raises_code, refused

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(autouse=True)
def no_server_remains() -> Iterator[None]:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "watch"]


@pytest.fixture(scope="module")
def finished(small_run: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a small run."""
    return Path(shutil.copytree(small_run.path, tmp_path_factory.mktemp("finished") / "run"))


@pytest.fixture
def server(finished: Path) -> Iterator[Server]:
    """Return a server of that run."""
    with served("small", finished, Silent()) as server:
        server.progress.start(0, chunks=0, skipped=1)
        yield server


Answer = tuple[int, dict[str, str], bytes]


def ask(server: Server, path: str, method: str = "GET", host: str | None = None) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=True)
        if host != "":
            connection.putheader("Host", host or f"127.0.0.1:{server.port}")
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def path_of(address: str) -> str:
    return "/" + address.split("/", 3)[3]


def state_of(server: Server) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(ask(server, f"{path_of(server.address)}state.json")[2])
    return state


# Access ----------------------------------------------------------------------------------------------------


def test_page_and_state_are_at_the_address(server: Server) -> None:
    assert re.fullmatch(rf"http://127\.0\.0\.1:{server.port}/[\w-]{{22}}/", server.address)
    status, headers, page = ask(server, path_of(server.address))
    assert status == 200
    assert b"<h2>Results</h2>" in page
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page.decode())
    assert policy is not None
    assert headers["Content-Security-Policy"] == f"{policy[1]}; frame-ancestors 'none'"
    assert "default-src 'none'" in policy[1]
    assert "connect-src 'self'" in policy[1]
    for name, value in {
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
    }.items():
        assert headers[name] == value
    assert state_of(server)["version"] == "1"
    assert ask(server, path_of(server.address), "HEAD")[::2] == (200, b"")
    assert ask(server, path_of(server.address), host=f"LocalHost:{server.port}")[0] == 200


def test_other_paths_are_not_found_and_reveal_nothing(server: Server) -> None:
    token = path_of(server.address)
    wrong = token[:-2] + ("A" if token[-2] != "A" else "B") + "/"
    nowhere = ask(server, "/")
    assert nowhere[0] == 404
    assert set(nowhere[1]).isdisjoint({"Server", "Content-Security-Policy", "Location"})
    others = [
        "/state.json",
        "/favicon.ico",
        wrong,
        f"{wrong}state.json",
        token[:-1],
        f"{token}x",
        f"{token}?a",
        "/%FF/",
    ]
    for path in [*others, f"{token}../", f"/.{token}", f"http://127.0.0.1:{server.port}{token}"]:
        assert ask(server, path) == nowhere, path


@pytest.mark.parametrize("host", ["", "evil.example", "evil.example:{}", "127.0.0.1", "127.0.0.1:1", "[::1]:{}"])
def test_foreign_host_names_are_rejected(server: Server, host: str) -> None:
    assert ask(server, path_of(server.address), host=host.format(server.port)) == ask(server, "/")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get", "X-Y"])
def test_other_methods_are_rejected(server: Server, method: str) -> None:
    status, headers, content = ask(server, path_of(server.address), method)
    assert (status, headers["Allow"], content) == (405, "GET, HEAD", b"")


def test_malformed_requests_are_rejected_and_the_next_is_served(server: Server) -> None:
    for request in (
        b"GET /\xff/ HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % server.port,
        b"\x16\x03\x01\x00\xa5\r\n\r\n",
        b"GET / HTTP/9.9.9\r\n\r\n",
        b"GET " + b"x" * 70_000,
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            assert b"Python" not in connection.recv(10_000)
    assert ask(server, path_of(server.address))[0] == 200


def test_server_listens_on_the_loopback_address_only(server: Server) -> None:
    assert server._http.socket.getsockname() == ("127.0.0.1", server.port)
    with pytest.raises(OSError, match=r"refused|unreachable|requested address"):
        socket.create_connection(("127.0.0.2", server.port), timeout=5).close()


def test_ticket_redirects_once(server: Server) -> None:
    ticket = path_of(server.ticket())
    assert ask(server, f"{ticket}x") == ask(server, "/")
    status, headers, _ = ask(server, ticket)
    assert (status, headers["Location"]) == (303, path_of(server.address))
    assert ask(server, ticket) == ask(server, "/")


def test_tokens_differ(finished: Path) -> None:
    with served("one", finished, Silent()) as one, served("two", finished, Silent()) as two:
        assert path_of(one.address) != path_of(two.address)
        assert ask(one, path_of(two.address))[0] == 404


# Rendering ---------------------------------------------------------------------------------------------


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets an entry for each rendered page."""
    entries: list[int] = []
    make = report.page

    def counting(*words: Any, **more: Any) -> str:
        entries.append(len(entries))
        return make(*words, **more)

    monkeypatch.setattr(report, "page", counting)
    return entries


def test_page_is_rendered_once_and_again_after_a_pause_or_at_the_end(
    finished: Path, made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.report.live.pages.PAUSE", 1e9)
    progress = LiveProgress(Silent())
    pages = LivePages(finished, progress)
    assert (pages.version, pages.get(), made) == ("", None, []), "the run has not started"
    progress.start(100, chunks=3, skipped=1)
    assert pages.version == "1"
    assert made == [], "no page is requested"
    first = pages.get()
    assert first is not None
    assert pages.get() is first
    progress.end_chunk()
    assert (pages.version, pages.get() is first, len(made)) == ("1", True, 1), "too soon"
    monkeypatch.setattr(pages, "_not_before_s", 0.0)
    assert pages.version == "2"
    pages.get()
    progress.end_chunk()
    assert (pages.version, pages.is_final) == ("2", False)
    progress.end()
    assert pages.version == "4"
    pages.get()
    assert (pages.is_final, len(made)) == (True, 3)
    pages.get()
    assert len(made) == 3


def test_rendering_error_is_reported_and_the_last_page_stays(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    good = ask(server, path_of(server.address))

    def fail(*_: object, **__: object) -> str:
        raise ZeroDivisionError("no <users>\nat all")

    monkeypatch.setattr(report, "page", fail)
    server.progress.end()
    assert ask(server, path_of(server.address)) == good
    assert state_of(server)["trouble"] == "ZeroDivisionError: no <users>"


def test_progress_is_forwarded(make_scenario: MakeScenario, tmp_path: Path) -> None:
    calls: list[tuple[Any, ...]] = []

    class Other:
        def start(self, queries: int, *, chunks: int, skipped: int) -> None:
            calls.append(("start", queries, chunks, skipped))

        def advance(self, queries: int) -> None:
            calls.append(("advance", queries))

        def end_chunk(self) -> None:
            calls.append(("end",))

    progress = LiveProgress(Other())
    begin = progress.state()
    assert (begin.done, begin.total, begin.queries_per_s, begin.left_s, begin.finished) == (0, 0, None, None, False)
    sim.run(make_scenario(replications=2), out=tmp_path / "run", figures=False, progress=progress, chunk_queries=1)
    total = 3 * 25 * 2 * 2
    assert calls[0] == ("start", total, 2, 0)
    assert sum(entry[1] for entry in calls if entry[0] == "advance") == total
    state = progress.state()
    assert (state.done, state.total, state.chunks_done, state.chunks, state.finished) == (total, total, 2, 2, False)
    assert state.queries_per_s is not None
    assert state.queries_per_s > 0
    assert state.left_s == 0
    progress.end("why")
    assert (progress.state().finished, progress.state().error, progress.state().left_s) == (True, "why", None)


# Command line -----------------------------------------------------------------------------------------------------


def test_watch_writes_the_same_files_as_run(small: Path) -> None:
    table = done("run", small, "-o", "plain", "--no-figures")
    result = lppm_sim("watch", small, "-o", "watched", "--no-figures", "--once")
    assert result.exit_code == 0
    assert result.stdout.replace("watched", "plain") == table
    assert re.match(r"live report: http://127\.0\.0\.1:\d+/[\w-]{22}/\n", result.stderr)
    assert files(Path("plain")) == files(Path("watched"))


def test_rejected_run_ends_as_with_run(small: Path) -> None:
    done("run", small, "-o", "existing", "--no-figures")
    message = refused("run", small, "-o", "existing", "--seed", "4")
    result = lppm_sim("watch", small, "-o", "existing", "--seed", "4")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[1:] == message.splitlines()
    assert "memory://" in refused("watch", small, "-o", "memory://run")


def test_unavailable_port_is_an_error(small: Path, server: Server) -> None:
    message = refused("watch", small, "--port", str(server.port))
    assert message.startswith(f"port {server.port} ")
    assert "--port" in message
    with raises_code(InputError, "port-unavailable"):
        Server("small", "run", Silent(), port=server.port)
    assert refused("watch", small, "--port", "80")


@pytest.mark.slow
def test_page_is_served_until_ctrl_c(small: Path) -> None:
    arguments = ["watch", "small.yaml", "-o", "run", "--no-figures"]
    command = [sys.executable, "-c", INTERRUPTIBLE, *arguments]
    with ending(
        subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True)
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "until Ctrl-C" in line:
                break
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
        assert process.wait(30) == 0


def test_ctrl_c_stops_the_run_and_the_server(small: Path, monkeypatch: pytest.MonkeyPatch, interruptible: None) -> None:
    def interrupted(_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(LiveProgress, "end_chunk", interrupted)
    result = lppm_sim("watch", small, "-o", "run")
    assert result.exit_code == 1
    assert "chunks are finished and kept in run" in result.stderr
    assert "resume with: lppm-sim watch small.yaml -o run\n" in result.stderr


# Browser --------------------------------------------------------------------------------------------------


@pytest.fixture
def live(chromium: Browser) -> Iterator[tuple[Page, list[str], list[str]]]:
    """Return an empty page, its error messages, and the addresses that it requests."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB", timezone_id="UTC")
    page = context.new_page()
    problems: list[str] = []
    requested: list[str] = []
    page.on("console", lambda entry: problems.append(entry.text) if entry.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: requested.append(request.url))
    yield page, problems, requested
    context.close()


def wait_for_status(page: Page, text: str) -> None:
    """Wait until the progress bar has this text."""
    page.locator(".live p[aria-hidden]", has_text=text).wait_for()


class Steps:
    """Progress callback that runs actions of a reader before the simulation and after each chunk."""

    def __init__(self, *acts: Callable[[], None]) -> None:
        self._acts = iter(acts)

    def start(self, queries: int, *, chunks: int, skipped: int) -> None:
        next(self._acts)()

    def advance(self, queries: int) -> None:
        pass

    def end_chunk(self) -> None:
        next(self._acts, lambda: None)()


def test_page_grows_to_all_results_and_preserves_selections(
    make_scenario: MakeScenario, tmp_path: Path, live: tuple[Page, list[str], list[str]]
) -> None:
    page, problems, requested = live
    lead, button = "header", "[data-chart=tradeoff] .legend button >> nth=0"
    scenario = make_scenario(replications=3, record={"snapshots": [10, 20]})
    server: Server

    def look() -> None:
        page.goto(server.ticket())
        page.get_by_text("No results yet").wait_for()
        wait_for_status(page, "0 of 450 queries simulated")
        assert page.inner_text("h1") == "small"

    def act() -> None:
        page.locator(button).wait_for()
        assert "150 queries" in page.inner_text(lead)
        wait_for_status(page, "1 of 3 chunks written")
        page.evaluate("window.reader = 'was here'")
        page.click(button)
        page.click("table.sortable th[data-type=text] button")
        page.click("table.sortable th[data-type=text] button")
        page.locator("#run details summary").first.click()
        page.evaluate("scrollTo({top: 200, behavior: 'instant'})")

    with served(scenario.name, tmp_path / "run", Steps(look, act)) as server:
        result = sim.run(scenario, out=tmp_path / "run", progress=server.progress, figures=False, chunk_queries=1)
        server.progress.end()
        server.wait_for_final_view()
    wait_for_status(page, "The simulation is finished")
    assert "450 queries" in page.inner_text(lead)
    shown = page.eval_on_selector_all("table.sortable tbody td", "cells => cells.map(cell => cell.dataset.value)")
    means = {f"{mean:.6g}" for mean in result.summary()["expected_quality_loss_km"]}
    assert means <= set(shown)
    assert page.evaluate("window.reader") == "was here", "the page was not reloaded"
    assert page.get_attribute(button, "aria-pressed") == "false"
    assert page.get_attribute("table.sortable th[data-type=text]", "aria-sort") == "descending"
    assert page.eval_on_selector("#run details", "details => details.open")
    assert page.evaluate("scrollY") == 200
    assert page.inner_text(".live [role=status]") == page.inner_text(".live p[aria-hidden]")
    assert problems == []
    assert {url.removeprefix(server.address) for url in requested[2:]} == {"", "state.json"}
    assert all(url.startswith(f"http://127.0.0.1:{server.port}/") for url in requested)


def test_error_at_the_end_is_reported(finished: Path, live: tuple[Page, list[str], list[str]]) -> None:
    page, problems, _ = live
    with suppress(UserError), served("small", finished, Silent()) as server:
        server.progress.start(100, chunks=1, skipped=1)
        page.goto(server.address)
        wait_for_status(page, "0 of 100 queries simulated")
        raise UserError("1 of 2 chunks failed; <all> others are there\nand so on")
    wait_for_status(page, "The simulation has ended: 1 of 2 chunks failed; <all> others are there")
    assert problems == []


def test_lost_server_is_reported_and_not_requested_again(
    finished: Path, live: tuple[Page, list[str], list[str]]
) -> None:
    page, _, requested = live
    with served("small", finished, Silent()) as server:
        server.progress.start(100, chunks=1, skipped=1)
        page.goto(server.address)
        wait_for_status(page, "0 of 100 queries simulated")
    wait_for_status(page, "The simulation has ended or was stopped")
    before = len(requested)
    page.wait_for_timeout(1500)
    assert len(requested) == before
    assert page.locator("#answer table.sortable tbody tr").count() == 2
