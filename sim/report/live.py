"""Watch a run: the report's page of what is finished so far, served to this machine alone while the simulation goes on.

The simulation keeps the main thread, and Ctrl-C with it. Pages are made in the server's threads, only when somebody
looks, and seldom enough to leave the simulation most of the time.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from html import unescape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any

from sim import report
from sim.analysis.result import Result
from sim.errors import InputError, UserError
from sim.simulation.progress import Progress

HOST = "127.0.0.1"
PAUSE = 3.0
"""A page is not made again before so many times as long as the last one took have passed."""

_LOOKING_S = 5.0
_FAREWELL_S = 10.0
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NOT_FOUND = HTTPStatus.NOT_FOUND, {"Content-Type": "text/plain"}, "not found\n"
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


@dataclass(frozen=True, slots=True)
class State:
    """How far a run is, without what an earlier one has left."""

    done: int
    """Queries, like `total`."""
    total: int
    chunks_done: int
    chunks: int
    queries_per_s: float | None
    left_s: float | None
    finished: bool
    """It has ended, with or without an error."""
    error: str
    """Why it ended without all of its results, in a line."""


class Told:
    """Is told how a run gets on, tells another too, and answers any thread that asks."""

    def __init__(self, other: Progress) -> None:
        self._other = other
        self._done = self._total = self._chunks_done = self._chunks = 0
        self._began_s = 0.0
        self._ended: str | None = None
        self._more = 0

    def start(self, queries: int, *, chunks: int, skipped: int) -> None:
        """Count what is to be simulated, or comes on top."""
        if not self._total:
            self._began_s = time.monotonic()
        self._total += queries
        self._chunks += chunks
        self._more += skipped > 0
        self._other.start(queries, chunks=chunks, skipped=skipped)

    def advance(self, queries: int) -> None:
        """Count queries."""
        self._done += queries
        self._other.advance(queries)

    def end_chunk(self) -> None:
        """Count a chunk."""
        self._chunks_done += 1
        self._more += 1
        self._other.end_chunk()

    def end(self, error: str = "") -> None:
        """Say that the run has ended, and why without all of its results if so."""
        self._ended = error

    @property
    def changes(self) -> int:
        """Goes up whenever there may be more to show, and for the last time with the end."""
        return self._more + self.ended

    @property
    def ended(self) -> bool:
        """Whether nothing more will change."""
        return self._ended is not None

    def state(self) -> State:
        """Return what is known now."""
        rate = self._done / max(time.monotonic() - self._began_s, 1e-9)
        left_s = max(self._total - self._done, 0) / rate if rate and not self.ended else None
        counted = (self._done, self._total, self._chunks_done, self._chunks)
        return State(*counted, rate or None, left_s, self.ended, self._ended or "")


class Pages:
    """The report's page of what is finished: made anew when it is asked for, there is more to show and it is time."""

    def __init__(self, place: str | Path, told: Told) -> None:
        self._place, self._told = place, told
        self._result: Result | None = None
        self._lock = threading.Lock()
        self._made = 0
        self._page: str | None = None
        self._not_before_s = 0.0
        self._closed = False
        self.trouble = ""
        """Why the last page could not be made, in a line."""

    @property
    def version(self) -> str:
        """The name of the page that may be had now; empty while there is none."""
        return str(self._told.changes) if self._due() else str(self._made) if self._page is not None else ""

    def get(self) -> str | None:
        """Return the page, or None while nothing is finished. Who asks while it is being made waits for it."""
        with self._lock:
            if self._due() and not self._closed:
                changes, began_s = self._told.changes, time.monotonic()
                self._page = self._make() or self._page
                ended_s = time.monotonic()
                self._not_before_s = ended_s + PAUSE * (ended_s - began_s)
                self._made = changes
            return self._page

    @property
    def last(self) -> bool:
        """Whether the page is that of the run's end."""
        return self._told.ended and self._made == self._told.changes

    def close(self) -> None:
        """Make no more pages; returns when the one being made is there."""
        self._closed = True
        with self._lock:
            pass

    def _due(self) -> bool:
        return self._told.changes > self._made and (self._told.ended or time.monotonic() >= self._not_before_s)

    def _make(self) -> str | None:
        self.trouble = ""
        try:
            self._result = self._result or Result.open(self._place)
            return report.page([self._result], live=True)
        except UserError:
            return None  # nothing is finished yet, or a part that a kill has torn is simulated again
        except Exception as error:  # whatever is wrong with a page, the simulation goes on
            self.trouble = f"{type(error).__name__}: {error}".splitlines()[0]
            return None


class Server:
    """Serves page and state to whoever knows the address, on this machine alone, until it is closed."""

    def __init__(self, name: str, place: str | Path, progress: Progress, *, port: int = 0) -> None:
        self.told = Told(progress)
        """Is to be told how the run gets on, and tells `progress`."""
        self._name, self._pages = name, Pages(place, self.told)
        self._token, self._ticket = secrets.token_urlsafe(16), ""
        self._looked_s = -float("inf")
        self._end_told = False
        self._farewell = threading.Event()
        try:
            self._http = _Http((HOST, port), _Handler)
        except OSError as error:
            raise InputError(
                f"port {port} of this machine cannot be had: {error.strerror or error}. Choose another with --port, "
                "or leave it out for one that is free."
            ) from error
        self._http.owner = self
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.1,), name="watch", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Where the page is, with the token that it takes."""
        return f"http://{HOST}:{self.port}/{self._token}/"

    def ticket(self) -> str:
        """Return an address that leads to the page once: what a browser is started with is seen by all on a machine."""
        self._ticket = secrets.token_urlsafe(16)
        return f"http://{HOST}:{self.port}/{self._ticket}"

    def say_farewell(self) -> None:
        """Wait until a page that is open knows how the run has ended, if there is one, and not for long."""
        if time.monotonic() - self._looked_s < _LOOKING_S:
            self._farewell.wait(_FAREWELL_S)

    def close(self) -> None:
        """Serve no more."""
        self._pages.close()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(_FAREWELL_S)

    def knows(self, host: str) -> bool:
        """Tell whether this is the address itself, not a name that somebody has made to point here."""
        return host.lower() in (f"{HOST}:{self.port}", f"localhost:{self.port}")

    def answer(self, path: str) -> tuple[HTTPStatus, dict[str, str], str]:
        """Return status, headers and content for a path; one that is not known gets no hint."""
        if _same(path, f"/{self._token}/"):
            page = self._pages.get() or report.waiting(self._name)
            return HTTPStatus.OK, {"Content-Type": "text/html; charset=utf-8"} | _policy(page), page
        if _same(path, f"/{self._token}/state.json"):
            self._looked_s = time.monotonic()
            return HTTPStatus.OK, {"Content-Type": "application/json"}, self._state()
        if self._ticket and _same(path, f"/{self._ticket}"):
            self._ticket = ""
            return HTTPStatus.SEE_OTHER, {"Location": f"/{self._token}/"}, ""
        return _NOT_FOUND

    def sent(self, path: str) -> None:
        """Note that an answer has gone out: who has heard of the end and has the last figures needs no more."""
        if self._end_told and self._pages.last and (path.endswith("/") or not self._pages.version):
            self._farewell.set()

    def _state(self) -> str:
        version = self._pages.version  # before the rest: the last version is never told without the end
        state = self.told.state()
        self._end_told |= state.finished
        return json.dumps({"version": version, "trouble": self._pages.trouble} | asdict(state))


@contextmanager
def served(name: str, place: str | Path, progress: Progress, *, port: int = 0) -> Iterator[Server]:
    """Serve the page of the run at a place while it is made; the server's `told` is to be the run's progress."""
    server = Server(name, place, progress, port=port)
    try:
        yield server
    except UserError as error:
        server.told.end(str(error).splitlines()[0])
        server.say_farewell()
        raise
    finally:
        server.close()


class _Http(ThreadingTCPServer):
    """Answers each request in a thread of its own, that ends with the process if not before."""

    allow_reuse_address = True
    daemon_threads = True
    owner: Server

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that went away."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Reads requests: to GET and HEAD, from pages of this address, goes what the server answers."""

    server: _Http
    timeout = 10.0

    def do_GET(self) -> None:
        """Answer with content."""
        owner = self.server.owner
        if not owner.knows(self.headers.get("Host", "")):
            self._send(*_NOT_FOUND)
            return
        self._send(*owner.answer(self.path))
        owner.sent(self.path)

    do_HEAD = do_GET

    def send_error(self, code: int, *_: object, **__: object) -> None:
        """Refuse what is no request, or none of these two."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._send(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, HEAD"}, "")
        else:
            self._send(HTTPStatus(code), {}, "")

    def _send(self, status: HTTPStatus, headers: Mapping[str, str], content: str) -> None:
        body = content.encode()
        self.send_response_only(status)
        for name, value in (_HEADERS | dict(headers) | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the terminal for the progress."""


def _same(path: str, ours: str) -> bool:
    """Compare in a time that tells nothing of how much of it is right."""
    return hmac.compare_digest(path.encode(), ours.encode())


def _policy(page: str) -> dict[str, str]:
    """Return as a header what the page says of itself, and that it is shown in no other page."""
    said = _POLICY.search(page)
    return {"Content-Security-Policy": f"{unescape(said[1])}; frame-ancestors 'none'"} if said else {}
