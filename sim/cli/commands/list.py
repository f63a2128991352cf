"""The command `list`: components and their parameters."""

from __future__ import annotations

import click

from sim.cli.suggestions import require_known


@click.command(name="list")
@click.argument("family", required=False)
@click.argument("kind", required=False)
def list_components(family: str | None, kind: str | None) -> None:
    """List the available components and their keys.

    Without arguments, prints one line per component. With FAMILY, such as `design`, prints the components of one
    family. With FAMILY and KIND, prints the keys of one component.
    """
    from sim.cli.output.components import print_keys, print_listing
    from sim.scenario.reference import listing

    families = listing()
    if family is None:
        print_listing(families)
        return
    require_known(family, families, noun="family", plural="Families", code="unknown-family")
    kinds = families[family][1]
    if kind is None:
        print_listing({family: families[family]})
        return
    require_known(kind, kinds, noun=f"kind of {family}", plural="Kinds", code="unknown-kind")
    print_keys(family, kind, kinds[kind])
