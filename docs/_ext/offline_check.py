"""Warn about pages and style sheets that load something over the network: the site must work offline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

_LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}
"""Attributes whose address a browser loads; addresses of `a` are links to follow."""

_NOT_LOADED = {"canonical", "alternate", "author", "license"}
"""Relations of `link` that are only metadata."""

_REMOTE = re.compile(r"\s*(https?:)?//", re.IGNORECASE)
_CSS = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)

_log = logging.getLogger(__name__)


class _Resources(HTMLParser):
    """Collector of the addresses that a page loads over the network."""

    def __init__(self) -> None:
        super().__init__()
        self.remote: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect an address."""
        values = dict(attrs)
        address = values.get(_LOADED.get(tag, "")) or ""
        if _REMOTE.match(address) and not (tag == "link" and values.get("rel") in _NOT_LOADED):
            self.remote.append(address)


def remote_resources(site: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file of a site that loads something over the network, with the address."""
    for path in sorted(site.rglob("*.html")):
        parser = _Resources()
        parser.feed(path.read_text(encoding="utf-8"))
        yield from ((path, address) for address in parser.remote)
    for path in sorted(site.rglob("*.css")):
        yield from ((path, address) for address in _CSS.findall(path.read_text(encoding="utf-8")))


def _check(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        for path, address in remote_resources(Path(app.outdir)):
            _log.warning("%s loads %s, but the site must work offline", path.relative_to(app.outdir), address)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("build-finished", _check, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
