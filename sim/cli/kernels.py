"""Load the numba kernels before a command that simulates."""

from __future__ import annotations

import click


def load_kernels() -> bool:
    """Load the numba kernels and return whether they were compiled first, which is slow: then a notice is printed."""
    from sim.inference.kernels import load

    compiled = False

    def notice() -> None:
        nonlocal compiled
        compiled = True
        click.echo("compiling for this machine, once: about 20 s", err=True)

    load(on_compile=notice)
    return compiled
