"""Ask the user for permission to run the custom code of a scenario."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from sim.errors import InputError

if TYPE_CHECKING:
    from sim.scenario.models import Scenario


def with_consent(scenario: Scenario) -> Scenario:
    """Return the scenario with permission for its custom code, asked for on a terminal, or raise `CodeNotAllowed`."""
    from sim.execution.inputs import custom_components, permitted

    names, code = custom_components(scenario), scenario.place.code
    if code.allowed is None and names and sys.stdin.isatty() and sys.stderr.isatty():
        click.echo("This scenario runs custom code with your permissions:", err=True)
        for name in names:
            click.echo(f"  {name}  ({code.located(name)})", err=True)
        if click.confirm("Do you trust this code?", default=False, err=True):
            return permitted(scenario, allow_code=True)
        raise InputError("permission to run custom code was declined; nothing was run", code="code-not-allowed")
    return permitted(scenario)
