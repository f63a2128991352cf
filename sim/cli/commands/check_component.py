"""The command `check-component`: contract checks of a component."""

from __future__ import annotations

import click

from sim.errors import InputError


@click.command(name="check-component")
@click.argument("component", metavar="COMPONENT")
@click.option(
    "--as",
    "family",
    type=click.Choice(["mobility", "demand", "belief", "design", "lppm", "attack"]),
    help="Family of the component, required if its methods do not determine it.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the component; may be repeated."
)
def check_component(component: str, family: str | None, settings: tuple[str, ...]) -> None:
    """Run the contract checks on a component.

    COMPONENT is a kind from `lppm-sim list`, or a custom class MODULE:CLASS, whose code is imported and run. Exits
    with code 1 if a check fails.
    """
    from sim.checks import check as check_all
    from sim.cli.output.components import print_checks
    from sim.scenario.reading.source import parse_value

    for setting in settings:
        if not setting.partition("=")[0].isidentifier() or "=" not in setting:
            raise InputError(
                f"--set: found {setting!r}, expected NAME=VALUE, such as epsilon_per_km=1", code="invalid-setting"
            )
    parameters = {name: parse_value(value) for name, _, value in (setting.partition("=") for setting in settings)}
    outcomes = check_all(component, family=family, parameters=parameters)
    print_checks(component, outcomes)
    if any(outcome.problem for outcome in outcomes):
        click.get_current_context().exit(1)
