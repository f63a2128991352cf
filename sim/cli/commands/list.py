"""The command `list`: components and their parameters."""

from __future__ import annotations

import click

from sim.cli.suggestions import require_known


@click.command(name="list")
@click.argument("family", required=False)
@click.argument("kind", required=False)
@click.option("--markdown", is_flag=True, help="Print the whole reference of keys as Markdown.")
def list_components(family: str | None, kind: str | None, markdown: bool) -> None:
    """List all kinds of components and their keys.

    Without arguments, one line per kind; with FAMILY, the kinds of one family; with FAMILY and KIND, the keys.
    """
    from sim.cli.output.components import print_keys, print_listing
    from sim.scenario import reference
    from sim.scenario.reference import listing

    if markdown:
        click.echo(reference.markdown(), nl=False)
        return
    families = listing()
    if family is None:
        print_listing(families)
        return
    require_known(family, families, what="family", plural="Families")
    kinds = families[family][1]
    if kind is None:
        print_listing({family: families[family]})
        return
    require_known(kind, kinds, what=f"kind of {family}", plural="Kinds")
    print_keys(family, kind, kinds[kind])
