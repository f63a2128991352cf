"""Load the numba kernels before a command that simulates."""

from __future__ import annotations

import click


def load_kernels() -> None:
    """Load the numba kernels; print a notice if they must be compiled first, which is slow."""
    from sim.inference.kernels import load

    load(on_compile=lambda: click.echo("compiling for this machine, once: about 20 s", err=True))
