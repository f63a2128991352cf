"""The command `schema`: the JSON schema of scenarios."""

from __future__ import annotations

import click


@click.command()
def schema() -> None:
    """Print the JSON schema of scenario files.

    Editors use the schema to complete and check keys.
    """
    from sim.scenario.load import schema as schema_text

    click.echo(schema_text())
