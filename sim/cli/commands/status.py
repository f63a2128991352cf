"""The command `status`: the progress of a run."""

from __future__ import annotations

import click


@click.command()
@click.argument("run_directory", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def status(run_directory: str, as_json: bool) -> None:
    """Show the progress of RUN.

    The command only reads. Use it while RUN is in progress, after an interruption, or at the end.
    """
    import dataclasses
    import json

    from sim.storage.status import status as read_status

    progress = read_status(run_directory)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(progress), indent=2))
        return
    from sim.cli.output.status import print_status

    print_status(progress)
