"""The command `new`: write a scenario to start from."""

from __future__ import annotations

from pathlib import Path

import click

from sim.escaping import visible


@click.command()
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--example", metavar="NAME", help="Copy a shipped scenario and the files that it reads.")
@click.option("--list", "list_examples", is_flag=True, help="List the shipped scenarios and exit.")
def new(path: Path | None, example: str | None, list_examples: bool) -> None:
    """Write a commented scenario to start from.

    PATH defaults to scenario.yaml, or to NAME.yaml with --example NAME. Existing files are never replaced.
    """
    from sim.errors import InputError, input_errors

    if list_examples:
        _print_examples()
        return
    with input_errors("nothing was written"):
        contents = _example_files(example, path) if example is not None else _template(path)
        for target in contents:
            if target.exists():
                raise InputError(f"{target} exists: choose another name; nothing was written", code="file-exists")
        if not (parent := next(iter(contents)).parent).is_dir():
            message = f"the folder {parent} does not exist: create it first; nothing was written"
            raise InputError(message, code="folder-not-found")
        for target, content in contents.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    scenario, *others = contents
    beside = f" and {', '.join(map(str, others))}" if others else ""
    click.echo(visible(f"wrote {scenario}{beside}; next: lppm-sim run {scenario}"))


def _template(path: Path | None) -> dict[Path, bytes]:
    """Return the file to write and its content."""
    from importlib.resources import files

    return {path or Path("scenario.yaml"): files("sim.scenario").joinpath("template.yaml").read_bytes()}


def _example_files(name: str, path: Path | None) -> dict[Path, bytes]:
    """Return the files to write and their contents, the scenario first."""
    from sim.scenario.examples import EXAMPLE, example

    chosen = example(name.removeprefix(EXAMPLE))
    target = path or Path(chosen.path.name)
    others = {target.parent / file: (chosen.path.parent / file).read_bytes() for file in chosen.files()}
    return {target: chosen.path.read_bytes(), **others}


def _print_examples() -> None:
    """Print the name and the description of every shipped scenario."""
    from rich.table import Table

    from sim.cli.output.terminal import stdout
    from sim.escaping import escape
    from sim.scenario.examples import examples

    table = Table("example", "description", box=None, pad_edge=False, header_style="bold")
    for one in examples():
        table.add_row(escape(one.name), escape(one.description))
    stdout().print(table)
    click.echo("\nRun one with `lppm-sim run example:NAME`, copy one with `lppm-sim new --example NAME`.")
