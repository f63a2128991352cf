"""Serve MathJax from the site, as one script without web fonts: formulas are SVG and need no network."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

PACKAGE = "sphinx-mathjax-offline"
"""A distribution of MathJax on PyPI. Its own extension copies 24 MB with web fonts, so only one file of it is used."""

SCRIPT = "tex-svg.js"


def _configure(_app: Sphinx, config: Config) -> None:
    config.mathjax_path = SCRIPT
    config.mathjax3_config = {
        "options": {"enableMenu": False},
        "svg": {"fontCache": "global"},
        "tex": {"tags": "none"},
    }


def _copy_script(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ExtensionError(f"the package {PACKAGE} is not installed: pip install {PACKAGE}")
    shutil.copyfile(Path(spec.origin).parent / "static" / "mathjax" / SCRIPT, app.outdir / "_static" / SCRIPT)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.setup_extension("sphinx.ext.mathjax")
    app.connect("config-inited", _configure)
    app.connect("build-finished", _copy_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
