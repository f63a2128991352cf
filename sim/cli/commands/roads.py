"""The command `roads export`: the roads of a scenario for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from sim.cli.options import ScenarioCommand, ScenarioOptions, scenario_options
from sim.escaping import visible


@click.group()
def roads() -> None:
    """Export the roads of a scenario."""


@roads.command(cls=ScenarioCommand)
@scenario_options
@click.option("-o", "--out", required=True, metavar="NAME", help="Write NAME.nod.xml and NAME.edg.xml.")
@click.option("--overwrite", is_flag=True, help="Replace existing files.")
def export(scenario: ScenarioOptions, *, out: str, overwrite: bool) -> None:
    """Write the roads of SCENARIO for SUMO.

    `netconvert -n NAME.nod.xml -e NAME.edg.xml -o NAME.net.xml --offset.disable-normalization true` builds the network.
    """
    from sim.datasets.trace_file import check_output
    from sim.errors import InputError
    from sim.simulation.setting import Setting
    from sim.storage.atomic import atomic_file
    from sim.world.roads.sumo import sumo_edges, sumo_nodes

    files = [check_output(Path(f"{out}{suffix}"), overwrite=overwrite) for suffix in (".nod.xml", ".edg.xml")]
    world = Setting(scenario.load_with_consent()).world
    if world.roads is None:
        raise InputError("the scenario has no roads: give some under world.roads, such as lattice", code="no-roads")
    for path, content in zip(files, (sumo_nodes(world.roads, world.grid), sumo_edges(world.roads)), strict=True):
        with atomic_file(path) as file:
            file.write(content.encode())
    edges = world.roads.graph.number_of_edges()
    click.echo(visible(f"wrote {world.roads.n_nodes:,} nodes and {edges:,} edges to {files[0]} and {files[1]}"))
    net = f"{out}.net.xml"
    command = f"netconvert -n {files[0]} -e {files[1]} -o {net} --offset.disable-normalization true"
    click.echo(visible(f"build the network of SUMO with:\n  {command}"))
