"""The command `export-mechanism`: write a fixed mechanism for other languages."""

from __future__ import annotations

from pathlib import Path

import click

from sim.cli.mechanism import MechanismOptions, mechanism_options
from sim.cli.options import ScenarioCommand
from sim.escaping import visible


@click.command(name="export-mechanism", cls=ScenarioCommand)
@mechanism_options
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="JSON file to write.")
@click.option("--reader", type=click.Path(path_type=Path), metavar="FILE", help="Also write the JavaScript reader.")
@click.option("--overwrite", is_flag=True, help="Replace existing files.")
def export_mechanism(mechanism: MechanismOptions, *, out: Path, reader: Path | None, overwrite: bool) -> None:
    """Write a mechanism as JSON for other languages.

    The channel of the mechanism must never change: its belief must be fixed, or its design must ignore the belief. The
    file holds the geometry of the cells, the prior, the channel with integer weights, and test vectors.
    """
    import json
    from importlib.resources import files

    from sim.api.export_mechanism import export_mechanism as export
    from sim.errors import InputError
    from sim.storage.atomic import atomic_file

    given = mechanism.arguments()
    if missing := mechanism.missing():
        raise InputError(f"{missing} must be given", code="missing-option")
    for path in (out, reader):
        if path is not None and path.exists() and not overwrite:
            raise InputError(f"{path} exists: choose another name, or use --overwrite", code="file-exists")
    given.pop("markov_restart", None)  # a fixed mechanism has no Markov model
    content = json.dumps(export(**given), separators=(",", ":"), allow_nan=False)
    written = {out: content.encode()}
    if reader is not None:
        written[reader] = files("sim.protection").joinpath("reader.js").read_bytes()
    for path, data in written.items():
        with atomic_file(path) as file:
            file.write(data)
        click.echo(visible(f"wrote {path}"))
