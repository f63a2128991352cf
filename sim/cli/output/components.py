"""Output of `list` (kinds and keys of components) and `check-component` (results of contract checks)."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from sim.attack import bayesian
from sim.checks import CheckResult
from sim.cli.output.terminal import stdout
from sim.components.registry import registry
from sim.components.spec import Spec
from sim.escaping import escape
from sim.scenario.lppms import LPPMSpec, short_names
from sim.scenario.reference import group_of, keys, source_of


def print_listing(families: dict[str, tuple[str, dict[str, str]]]) -> None:
    """Print families of components, their place in a scenario, and one line per kind."""
    console = stdout()
    for family, (place, members) in families.items():
        console.print(f"[bold]{family}[/]  ({escape(place)})", highlight=False)
        for group in sorted({group_of(family, kind) for kind in members}):
            if group:
                console.print(f"  [italic]{escape(group)}[/]", highlight=False)
            console.print(_lines(family, [kind for kind in members if group_of(family, kind) == group], members))


def _lines(family: str, kinds: Sequence[str], members: dict[str, str]) -> Table:
    """Return a table with one row per kind: its name and its line, followed by its source if it cites one."""
    table = Table(box=None, show_header=False, padding=(0, 2), highlight=False)
    for kind in kinds:
        source = source_of(family, kind)
        table.add_row(escape(kind), escape(members[kind]) + (f" [dim]{escape(source)}.[/]" if source else ""))
    return table


def print_keys(family: str, kind: str, line: str) -> None:
    """Print the keys of one kind with allowed values, default and meaning; short names have the keys of their parts."""
    console = stdout()
    console.print(f"[bold]{escape(kind)}[/]  {escape(line)}", highlight=False)
    if source := source_of(family, kind):
        console.print(f"Source: {escape(source)}.", highlight=False)
    short = {"lppm": short_names(), "attack": bayesian.SHORT_NAMES}.get(family, {}).get(kind, {})
    specs: dict[str, type[Spec]] = {"": LPPMSpec if family == "lppm" else registry.kinds(family)[kind]}
    specs |= {f"{part}.": registry.kinds(part)[short[part]["kind"]] for part in ("belief", "design") if part in short}
    table = Table()
    for heading in ("key", "allowed", "default", "meaning"):
        table.add_column(heading)
    for prefix, spec in specs.items():
        for key in keys(spec):
            table.add_row(*map(escape, (prefix + key.name, key.allowed, key.default, key.meaning)))
    if table.row_count:
        console.print(table, highlight=False)
    else:
        console.print("This component has no keys.", highlight=False)


def print_checks(component: str, outcomes: Sequence[CheckResult]) -> None:
    """Print the outcome of each contract check."""
    console = stdout()
    for outcome in outcomes:
        mark = "[green]ok[/]  " if outcome.problem is None else "[red]fail[/]"
        console.print(f"{mark} {escape(outcome.check)}", highlight=False)
        if outcome.problem is not None:
            console.print(f"     {escape(outcome.problem)}", highlight=False, soft_wrap=True)
    failed = sum(outcome.problem is not None for outcome in outcomes)
    console.print(f"{escape(component)}: {len(outcomes) - failed} of {len(outcomes)} checks passed", highlight=False)
