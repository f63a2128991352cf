"""Command line `lppm-sim`. Importing it imports click and nothing heavy."""

from __future__ import annotations

import os

import click

from sim.cli.commands.adaptation import adaptation
from sim.cli.commands.answers import answers
from sim.cli.commands.audit import audit
from sim.cli.commands.bench import bench
from sim.cli.commands.check import check
from sim.cli.commands.check_component import check_component
from sim.cli.commands.choose import choose
from sim.cli.commands.data import data
from sim.cli.commands.export import export
from sim.cli.commands.export_mechanism import export_mechanism
from sim.cli.commands.list import list_components
from sim.cli.commands.new import new
from sim.cli.commands.paper import paper
from sim.cli.commands.plot import plot
from sim.cli.commands.protect import protect
from sim.cli.commands.report import compare, report
from sim.cli.commands.roads import roads
from sim.cli.commands.run import run
from sim.cli.commands.schema import schema
from sim.cli.commands.services import services
from sim.cli.commands.status import status
from sim.cli.commands.summarize import summarize
from sim.cli.commands.traces import traces
from sim.cli.commands.watch import watch
from sim.cli.group import Group
from sim.cli.threads import THREAD_VARIABLES

# Worker processes start as `python -c`: modules of the current folder must not shadow the standard library in them.
os.environ.setdefault("PYTHONSAFEPATH", "1")

# Small matrices are slower on several threads. This has an effect only before numpy is imported.
for _variable in THREAD_VARIABLES:
    os.environ.setdefault(_variable, "1")


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="lppm-sim", message="%(package)s %(version)s")
def main() -> None:
    """Simulate and evaluate location privacy.

    Users move and query a location-based service, mechanisms (LPPMs) obfuscate their locations, and adversaries
    attack the reports.
    """


for _command in (
    *(run, watch, check, audit, choose, new, list_components, schema, export, traces, summarize, answers, adaptation),
    *(services, plot, report, compare, protect, export_mechanism),
    *(check_component, status, data, roads, paper, bench),
):
    main.add_command(_command)
