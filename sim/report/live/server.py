"""HTTP server of the live view, accessible from the local machine only, with a token in the address."""

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
from dataclasses import asdict
from html import unescape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any

from sim import report
from sim.errors import InputError, UserError
from sim.report.live.pages import LivePages
from sim.report.live.progress import LiveProgress
from sim.simulation.progress import Progress

HOST = "127.0.0.1"

_VIEWED_WITHIN_S = 5.0
_LONGEST_WAIT_S = 10.0
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NOT_FOUND = HTTPStatus.NOT_FOUND, {"Content-Type": "text/plain"}, "not found\n"
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


class Server:
    """Server of page and state for clients on the local machine that know the address."""

    def __init__(self, name: str, place: str | Path, progress: Progress, *, port: int = 0) -> None:
        self.progress = LiveProgress(progress)
        """The progress callback of the run; forwards to `progress`."""
        self._name, self._pages = name, LivePages(place, self.progress)
        self._token, self._ticket = secrets.token_urlsafe(16), ""
        self._viewed_s = -float("inf")
        self._end_sent = False
        self._final_view = threading.Event()
        try:
            self._http = _Http((HOST, port), _Handler)
        except OSError as error:
            raise InputError(
                f"port {port} is not available: {error.strerror or error}. Select another port with --port, or omit "
                "the option to use a free port.",
                code="port-unavailable",
            ) from error
        self._http.owner = self
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.1,), name="watch", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """The address of the page, with the token."""
        return f"http://{HOST}:{self.port}/{self._token}/"

    def ticket(self) -> str:
        """Return an address that redirects to the page once.

        The command line of the browser is visible to all users of the machine and must not contain the token.
        """
        self._ticket = secrets.token_urlsafe(16)
        return f"http://{HOST}:{self.port}/{self._ticket}"

    def wait_for_final_view(self) -> None:
        """Wait, for a limited time, until an open page shows the end of the run; return immediately if none is open."""
        if time.monotonic() - self._viewed_s < _VIEWED_WITHIN_S:
            self._final_view.wait(_LONGEST_WAIT_S)

    def close(self) -> None:
        """Stop serving."""
        self._pages.close()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(_LONGEST_WAIT_S)

    def accepts_host(self, host: str) -> bool:
        """Return whether a Host header is the address itself, which rules out DNS rebinding."""
        return host.lower() in (f"{HOST}:{self.port}", f"localhost:{self.port}")

    def answer(self, path: str) -> tuple[HTTPStatus, dict[str, str], str]:
        """Return status, headers and content for a path; unknown paths reveal nothing."""
        if _same(path, f"/{self._token}/"):
            page = self._pages.get() or report.waiting(self._name)
            return HTTPStatus.OK, {"Content-Type": "text/html; charset=utf-8"} | _policy(page), page
        if _same(path, f"/{self._token}/state.json"):
            self._viewed_s = time.monotonic()
            return HTTPStatus.OK, {"Content-Type": "application/json"}, self._state()
        if self._ticket and _same(path, f"/{self._ticket}"):
            self._ticket = ""
            return HTTPStatus.SEE_OTHER, {"Location": f"/{self._token}/"}, ""
        return _NOT_FOUND

    def sent(self, path: str) -> None:
        """Record that an answer was sent; a client that has the final state and page needs no more."""
        if self._end_sent and self._pages.is_final and (path.endswith("/") or not self._pages.version):
            self._final_view.set()

    def _state(self) -> str:
        version = self._pages.version  # before the rest: the final version is never sent without the end
        state = self.progress.state()
        self._end_sent |= state.finished
        return json.dumps({"version": version, "trouble": self._pages.trouble} | asdict(state))


@contextmanager
def served(name: str, place: str | Path, progress: Progress, *, port: int = 0) -> Iterator[Server]:
    """Serve the page of a run during the simulation; the run must report to the server's `progress`."""
    server = Server(name, place, progress, port=port)
    try:
        yield server
    except UserError as error:
        server.progress.end(str(error).splitlines()[0])
        server.wait_for_final_view()
        raise
    finally:
        server.close()


class _Http(ThreadingTCPServer):
    """TCP server with a daemon thread per request."""

    allow_reuse_address = True
    daemon_threads = True
    owner: Server

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore closed connections."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Handler of GET and HEAD requests to this address."""

    server: _Http
    timeout = 10.0

    def do_GET(self) -> None:
        """Answer a request."""
        owner = self.server.owner
        if not owner.accepts_host(self.headers.get("Host", "")):
            self._send(*_NOT_FOUND)
            return
        self._send(*owner.answer(self.path))
        owner.sent(self.path)

    do_HEAD = do_GET

    def send_error(self, code: int, *_: object, **__: object) -> None:
        """Reject malformed requests and other methods."""
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
        """Log nothing, because the terminal shows the progress."""


def _same(path: str, expected: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(path.encode(), expected.encode())


def _policy(page: str) -> dict[str, str]:
    """Return the content security policy of the page as a header that also forbids frames."""
    match = _POLICY.search(page)
    return {"Content-Security-Policy": f"{unescape(match[1])}; frame-ancestors 'none'"} if match else {}
