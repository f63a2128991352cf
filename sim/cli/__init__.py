"""The command line: parsing and printing only. Heavy imports wait until a command needs them."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from sim.cli.data import data
from sim.cli.paper import paper
from sim.escaping import visible

# Worker processes start as `python -c`: without this, modules of the current folder would shadow Python's own in them.
os.environ.setdefault("PYTHONSAFEPATH", "1")

# Small matrices are slower on several threads; must be said before numpy is imported.
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
for _variable in _THREADS:
    os.environ.setdefault(_variable, "1")


_WORDS = "lppm_sim.words"
_INTERRUPTED = {
    "new": "the file may be incomplete: remove it before you repeat the command",
    "traces": "the file may be incomplete: repeat the command with --overwrite",
    "summarize": "the event log is unchanged; repeat the command to write all tables",
    "adaptation": "the event log is unchanged; repeat the command to write the table and the figure",
    "plot": "the event log is unchanged; repeat the command to draw all figures",
    "report": "the event log and the last complete report are unchanged",
    "paper": "finished studies and chunks are kept, and the same command goes on from there",
}
"""What is true after Ctrl-C in a command that may have written something; others write one file, whole, at the end."""


class Group(click.Group):
    """Commands in the order they are written, with a hint for a mistyped one and no traceback for a user's error."""

    def list_commands(self, _context: click.Context) -> list[str]:
        """Keep the order of the file: the first steps first."""
        return list(self.commands)

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        """Suggest the nearest command for an unknown one."""
        if args and self.get_command(context, args[0]) is None:
            near = difflib.get_close_matches(args[0], self.commands, 1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            context.fail(f"No such command {args[0]!r}.{meant} Commands: {', '.join(self.commands)}.")
        return super().resolve_command(context, args)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Keep the words of the command: an interrupted run names the command that resumes it."""
        context.meta[_WORDS] = list(args)
        return super().parse_args(context, args)

    def invoke(self, context: click.Context) -> Any:
        """Show what the user can mend as a message, and end with its exit code."""
        from sim.errors import UserError
        from sim.simulation import interrupts

        try:
            with interrupts.recorded(), interrupts.contained("a component"):
                return super().invoke(context)
        except UserError as error:
            click.echo(visible(str(error)), err=True)
            context.exit(error.exit_code)
        except click.ClickException as error:
            error.message = visible(error.message)  # type: ignore[misc]
            raise
        except KeyboardInterrupt as error:
            click.echo(f"\n{visible(_interrupted(context, error))}", err=True)
            context.exit(1)


def _interrupted(context: click.Context, error: KeyboardInterrupt) -> str:
    """Return what is true after Ctrl-C in a command: what is kept, what is lost, how to resume."""
    import shlex

    from sim.components.wording import one_line
    from sim.simulation.interrupts import Interrupted

    if not isinstance(error, Interrupted):
        return f"interrupted; {_INTERRUPTED.get(context.invoked_subcommand or '', 'nothing was written')}"
    if context.invoked_subcommand not in ("run", "watch", "paper"):
        return str(error)
    return f"{error}\nresume with: {one_line(shlex.join(['lppm-sim', *context.meta[_WORDS]]))}"


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="lppm-sim", message="%(package)s %(version)s")
def main() -> None:
    """Simulate location privacy: users who move, mechanisms that protect them, adversaries who attack online."""


_ANYWHERE = "\0"
"""What ``--allow-code`` without a folder is read as: nothing that a command line can hold."""


class ScenarioCommand(click.Command):
    """A command that reads a scenario. ``--allow-code`` may be followed by a folder."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Join ``--allow-code`` and the folder that follows it, so that it does not take the scenario for one."""
        joined: list[str] = []
        for arg in args:
            if joined and joined[-1] == "--allow-code":
                is_folder = Path(arg).is_dir()
                joined[-1] = f"--allow-code={arg if is_folder else _ANYWHERE}"
                if is_folder:
                    continue
            joined.append(arg)
        if joined and joined[-1] == "--allow-code":
            joined[-1] = f"--allow-code={_ANYWHERE}"
        return super().parse_args(context, joined)


def scenario_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add what every command that reads a scenario takes."""
    options = [
        click.argument("scenario", type=click.Path(path_type=Path)),
        click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", help="Change a value; may be repeated."),
        click.option("--seed", type=int, help="Short for --set seed=N."),
        click.option("--data", type=click.Path(path_type=Path), help="Folder of real data sets (data:NAME files)."),
        click.option(
            "--allow-code",
            multiple=True,
            metavar="[FOLDER]",
            help="Run the custom components (module:Class) that SCENARIO names; with FOLDER, import only from there.",
        ),
    ]
    return _with_options(command, options)


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add what every command that simulates takes."""
    options = [
        click.option("-o", "--out", help="Run directory, or the URL of one  [default: outputs/<name>-<digest>]"),
        click.option("--figures/--no-figures", default=True, help="Draw the figures and write the report at the end."),
        click.option("--workers", type=click.IntRange(1, 1024), help="Processes to share the work  [default: 1]"),
        click.option(
            "--dask", metavar="ADDRESS", help="Run on the Dask cluster there; `local` starts one of --workers."
        ),
        click.option(
            "--dask-timeout",
            type=click.FloatRange(0, min_open=True),
            metavar="SECONDS",
            help="Longest wait for a Dask worker while there is none  [default: 3600; 120 for `local`]",
        ),
    ]
    return _with_options(command, options)


def _with_options(command: Callable[..., None], options: list[Any]) -> Callable[..., None]:
    for option in reversed(options):
        command = option(command)
    return command


def _refuse_what_is_lost(out: str | None) -> None:
    from sim.storage.run_directory import RunDirectory

    if out is not None and not RunDirectory(out).shared:
        raise click.UsageError(f"{out} would be gone when this command ends: that is for `sim.run` in Python")


def _load(
    scenario: Path,
    settings: tuple[str, ...],
    seed: int | None,
    data: Path | None,
    allow_code: tuple[str, ...],
    *,
    ask: bool = True,
) -> Any:
    """Load a scenario; where it names custom code without permission, ask for it on a terminal."""
    from sim.scenario.load import load

    folders = [folder for folder in allow_code if folder != _ANYWHERE]
    study = load(
        scenario,
        settings=[*settings, *([] if seed is None else [f"seed={seed}"])],
        data=data,
        allow_code=folders or (True if allow_code else None),
    )
    return _with_consent(study) if ask else study


def _with_consent(study: Any) -> Any:
    """Return the scenario with permission for its custom code, asked for on a terminal, or raise `CodeNotAllowed`."""
    from sim.execution.runner import custom_components, permitted

    names, code = custom_components(study), study.place.code
    if code.allowed is None and names and sys.stdin.isatty() and sys.stderr.isatty():
        click.echo("This scenario runs custom code, with your rights:", err=True)
        for name in names:
            click.echo(f"  {name}  ({code.located(name)})", err=True)
        if click.confirm("Do you trust this code?", default=False, err=True):
            return permitted(study, allow_code=True)
        raise click.UsageError("permission to run custom code was declined; nothing was run")
    return permitted(study)


def _load_kernels() -> None:
    """Load the compiled kernels, and print a notice where they are not in numba's cache: compiling takes long."""
    from sim.inference.kernels import load

    load(on_compile=lambda: click.echo("compiling for this machine, once: about 20 s", err=True))


def _shard(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """Read i/N."""
    if text is None:
        return None
    if (said := re.fullmatch(r"(\d+)/(\d+)", text)) is None or not 1 <= int(said[1]) <= int(said[2]):
        raise click.BadParameter(f"{text!r} is not I/N with I from 1 to N, such as 3/8")
    return int(said[1]), int(said[2])


@main.command(cls=ScenarioCommand)
@scenario_options
@run_options
@click.option("--shard", callback=_shard, metavar="I/N", help="Simulate the I-th of N shares alone, for job arrays.")
@click.option("--chunk", metavar="ID", help="Simulate this chunk alone; a failure is shown with its traceback.")
@click.option(
    "--chunk-queries",
    type=click.IntRange(1),
    help="Join replications to chunks of so many queries; results are the same  [default: 10,000]",
)
def run(
    scenario: Path,
    settings: tuple[str, ...],
    seed: int | None,
    data: Path | None,
    allow_code: tuple[str, ...],
    out: str | None,
    figures: bool,
    workers: int | None,
    dask: str | None,
    dask_timeout: float | None,
    shard: tuple[int, int] | None,
    chunk: str | None,
    chunk_queries: int | None,
) -> None:
    """Run SCENARIO into a run directory.

    Leaves an event log, a table, figures and a report to look at. A second run goes on where the first was stopped.
    """
    from sim.cli import console
    from sim.execution.runner import run as run_scenario
    from sim.simulation.interrupts import explained

    _refuse_what_is_lost(out)
    study = _load(scenario, settings, seed, data, allow_code)
    _load_kernels()
    with console.Bar(study.name) as bar:
        result = run_scenario(
            study,
            out=out,
            progress=bar,
            figures=figures,
            workers=workers,
            dask=dask,
            dask_timeout=dask_timeout,
            shard=shard,
            chunk=chunk,
            chunk_queries=chunk_queries,
        )
    with explained(f"interrupted; the simulation is complete and kept in {result.run}"):
        if chunk is not None:
            click.echo(visible(f"chunk {chunk} is in {result.run}"))
        elif shard is not None:
            console.print_shard(shard, result)
        else:
            console.print_result(result, redrawn=figures)


@main.command(cls=ScenarioCommand)
@scenario_options
@run_options
@click.option("--chunk-queries", type=click.IntRange(1), help="As of `run`; smaller chunks are shown sooner.")
@click.option("--port", type=click.IntRange(1024, 65535), help="Port of the page  [default: one that is free]")
@click.option("--open", "in_browser", is_flag=True, help="Open the page in a browser.")
@click.option("--once", is_flag=True, help="End when the run ends, instead of serving its page until Ctrl-C.")
def watch(
    scenario: Path,
    settings: tuple[str, ...],
    seed: int | None,
    data: Path | None,
    allow_code: tuple[str, ...],
    out: str | None,
    figures: bool,
    workers: int | None,
    dask: str | None,
    dask_timeout: float | None,
    chunk_queries: int | None,
    port: int | None,
    in_browser: bool,
    once: bool,
) -> None:
    """Run SCENARIO and look at its report meanwhile.

    The same as `run`, with a page that shows what is finished so far. Only this machine can open it, and only who
    knows its address, which is printed first.
    """
    import time
    import webbrowser
    from contextlib import suppress

    from sim.cli import console
    from sim.execution.runner import default_directory
    from sim.execution.runner import run as run_scenario
    from sim.report.live import served
    from sim.simulation.interrupts import explained

    _refuse_what_is_lost(out)
    study = _load(scenario, settings, seed, data, allow_code)
    _load_kernels()
    place, bar = out or default_directory(study), console.Bar(study.name)
    with served(study.name, place, bar, port=port or 0) as server:
        click.echo(f"watch it at {server.address}", err=True)
        if in_browser and not webbrowser.open(server.ticket()):
            click.echo("no browser could be opened: open this address yourself", err=True)
        with bar:
            result = run_scenario(
                study,
                out=place,
                progress=server.told,
                figures=figures,
                workers=workers,
                dask=dask,
                dask_timeout=dask_timeout,
                chunk_queries=chunk_queries,
            )
        server.told.end()
        with explained(f"interrupted; the simulation is complete and kept in {result.run}"):
            console.print_result(result, redrawn=figures)
        if once:
            server.say_farewell()
        else:
            with suppress(KeyboardInterrupt):
                click.echo(f"the page stays at {server.address} until Ctrl-C", err=True)
                while True:
                    time.sleep(3600)


@main.command(cls=ScenarioCommand)
@scenario_options
@click.option("--time/--no-time", "measure", default=True, help="Estimate the time by simulating a few users.")
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(0.1, 86_400),
    default=2.5,
    show_default=True,
    help="Seconds for measuring; what takes longer is named as not measured.",
)
def check(
    scenario: Path,
    settings: tuple[str, ...],
    seed: int | None,
    data: Path | None,
    allow_code: tuple[str, ...],
    measure: bool,
    limit_s: float,
) -> None:
    """Validate SCENARIO and estimate its cost.

    Nothing is written. Time and memory are estimated from a few of its users, within --limit seconds. Custom
    components are not imported without --allow-code; then there is no estimate.
    """
    from sim.cli import console
    from sim.execution.cost.estimate import estimate
    from sim.execution.runner import custom_components
    from sim.scenario.plausibility import remarks
    from sim.scenario.sweep import points

    study = _load(scenario, settings, seed, data, allow_code, ask=False)
    if not study.place.code.allowed and (names := custom_components(study)):
        console.print_not_loaded(study, names)
        return
    if measure:
        _load_kernels()
    swept = points(study)
    console.print_cost(study, estimate(study, swept, measure=measure, limit_s=limit_s))
    console.print_remarks(remarks(point.scenario for point in swept))


@main.command()
@click.argument("path", type=click.Path(path_type=Path), default=Path("scenario.yaml"))
def new(path: Path) -> None:
    """Write a commented scenario to start from.

    It goes to PATH, by default scenario.yaml.
    """
    from importlib.resources import files

    from sim.errors import input_errors

    with input_errors("nothing was written"):
        if path.exists():
            raise click.UsageError(f"{path} is there already: choose another name, nothing was written")
        if not path.parent.is_dir():
            raise click.UsageError(f"the folder {path.parent} does not exist: nothing was written")
        path.write_bytes(files("sim.scenario").joinpath("template.yaml").read_bytes())
    click.echo(visible(f"wrote {path}; now: lppm-sim run {path}"))


@main.command(name="list")
@click.argument("family", required=False)
@click.argument("kind", required=False)
@click.option("--markdown", is_flag=True, help="Print the whole reference of keys as Markdown.")
def list_components(family: str | None, kind: str | None, markdown: bool) -> None:
    """Show every kind of component and its keys.

    Without an argument one line for each kind; with FAMILY those of one family; with FAMILY and KIND the keys of it.
    """
    from sim.cli import console
    from sim.components.custom import listing
    from sim.scenario import reference

    if markdown:
        click.echo(reference.markdown(), nl=False)
        return
    families = listing()
    chosen = families if family is None else {family: families[_known(family, families, "family", "Families")]}
    if kind is None:
        console.print_listing(chosen)
        return
    (name,) = chosen
    _known(kind, families[name][1], f"kind of {name}", "Kinds")
    console.print_keys(name, kind, families[name][1][kind])


def _known(word: str, allowed: Mapping[str, object], what: str, all_of_them: str) -> str:
    """Return the word if it is one of those allowed, else end with a hint."""
    if word not in allowed:
        near = difflib.get_close_matches(word, allowed, 1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise click.UsageError(f"no {what} {word!r}.{meant} {all_of_them}: {', '.join(allowed)}")
    return word


@main.command()
def schema() -> None:
    """Print the JSON schema of scenarios."""
    from sim.scenario.load import schema as schema_text

    click.echo(schema_text())


@main.command()
@click.argument("run_directory", metavar="RUN")
@click.option("--format", "form", type=click.Choice(["csv", "jsonl", "parquet"]), default="csv", show_default=True)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="File  [default: <RUN's name>.<format> here]")
@click.option("--overwrite", is_flag=True, help="Replace the file if it is there.")
def export(run_directory: str, form: Any, out: Path | None, overwrite: bool) -> None:
    """Write the event log of RUN as one file."""
    from sim.storage.export import export as export_run
    from sim.storage.run_directory import RunDirectory

    destination = out or Path(f"{_name_of(run_directory)}.{form}")
    done = export_run(RunDirectory.open(run_directory), destination, form, overwrite=overwrite)
    click.echo(visible(f"wrote {done.rows:,} rows to {done.path}"))


def _name_of(run_directory: str) -> str:
    """Return what a file made from a run is called."""
    return (
        run_directory.rstrip("/").rpartition("/")[2] if "://" in run_directory else Path(run_directory).resolve().name
    )


@main.command(cls=ScenarioCommand)
@scenario_options
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="CSV file; .gz compresses it.")
@click.option("--overwrite", is_flag=True, help="Replace the file if it is there.")
def traces(
    scenario: Path,
    settings: tuple[str, ...],
    seed: int | None,
    data: Path | None,
    allow_code: tuple[str, ...],
    out: Path,
    overwrite: bool,
) -> None:
    """Write SCENARIO's true traces as CSV.

    The cells that its users query from, in a form that the mobility `replay` reads.
    """
    from sim.errors import input_errors
    from sim.mobility.recorded.replay import write_csv
    from sim.simulation.population import Setting, Stage

    if out.exists() and not overwrite:
        raise click.UsageError(f"{out} is there already: choose another name or add --overwrite, nothing was written")
    study = _load(scenario, settings, seed, data, allow_code)
    stage = Stage(Setting(study), 0)
    lived = stage.traces
    with input_errors("the traces cannot be written"):
        write_csv(out, lived, stage.setting.world.grid)
    click.echo(visible(f"wrote {sum(map(len, lived)):,} queries of {len(lived)} users to {out}"))


@main.command()
@click.argument("run_directory", metavar="RUN")
@click.option(
    "--at",
    "losses_km",
    type=click.FloatRange(0),
    multiple=True,
    metavar="KM",
    help="Print the adversary's error at this quality loss too; may be repeated.",
)
@click.option(
    "--against", metavar="LPPM", help="With --at: the LPPM that others are compared with  [default: the first]"
)
@click.option("--metrics", is_flag=True, help="Print more figures, and what mechanisms promise beside what happened.")
def summarize(run_directory: str, losses_km: tuple[float, ...], against: str | None, metrics: bool) -> None:
    """Sum up RUN again from its event log.

    Writes summary.csv and metrics.csv and prints the table. With --at it reads the error off each user's own trade-off
    curve and compares paired by user. With --metrics it prints hit rate, entropy, worst loss and epsilon as far as they
    were recorded.
    """
    from sim.analysis.result import Result
    from sim.cli import console

    if against is not None and not losses_km:
        raise click.UsageError("--against needs a quality loss to compare at, such as --at 1")
    result = Result.open(run_directory)
    compared = result.at_loss(losses_km, against=against) if losses_km else None
    result.run.write_csv("summary.csv", result.summary())
    result.run.write_csv("metrics.csv", result.metrics())
    console.print_result(result)
    if compared is not None:
        console.print_at_loss(compared)
    if metrics:
        console.print_metrics(result)


@main.command()
@click.argument("run_directory", metavar="RUN")
@click.option("--window", type=click.IntRange(1), default=50, show_default=True, help="Queries in a window.")
@click.option(
    "--recovered",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.9,
    show_default=True,
    help="Which part of the efficiency before counts as recovered.",
)
@click.option("--before", type=click.IntRange(1), default=150, show_default=True, help="Queries before, at most.")
@click.option("--shift", metavar="NAME", help="Which shift  [default: the first]")
@click.option("--against", metavar="LPPM", help="The LPPM that others are compared with  [default: the first]")
def adaptation(
    run_directory: str, window: int, recovered: float, before: int, shift: str | None, against: str | None
) -> None:
    """Show how mechanisms of RUN followed a shift.

    Efficiency P_AE / Q-bar before and after it, how many queries it takes to recover and how many are lost. Writes
    adaptation.csv and figures/adaptation. A run with shifts does that by itself.
    """
    from sim.analysis.result import Result
    from sim.cli import console
    from sim.execution.runner import sum_up_adaptation

    result = Result.open(run_directory)
    found = result.adaptation(window=window, recovered=recovered, before=before, shift=shift)
    if against is not None and against not in set(found.summary["lppm"]):
        raise click.UsageError(f"no LPPM {against!r}: there are {', '.join(dict.fromkeys(found.summary['lppm']))}")
    sum_up_adaptation(result, found)
    console.print_adaptation(result, found, against)
    click.echo(visible(f"adaptation.csv and figures/adaptation are in {result.run}"))


@main.command()
@click.argument("run_directory", metavar="RUN")
@click.option(
    "--figure",
    "kind",
    type=click.Choice(["tradeoff", "over_time", "efficiency", "adaptation", "tournament", "users", "profiles", "map"]),
    help="Draw this one figure alone, for a paper.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="With --figure: file, .pdf, .svg, .png or .eps  [default: <RUN's name>-<figure>.pdf here]",
)
@click.option(
    "--width", metavar="WIDTH", help="With --figure: column (3.5 in), page (7.16 in) or inches.  [default: column]"
)
@click.option("--lppm", "lppms", multiple=True, metavar="NAME", help="With --figure: this LPPM; may be repeated.")
@click.option("--attack", "attacks", multiple=True, metavar="NAME", help="With --figure: this attack; may be repeated.")
@click.option("--user", "users", multiple=True, metavar="ID", help="With --figure users or map: this user.")
@click.option("--overwrite", is_flag=True, help="With --figure: replace the file if it is there.")
def plot(run_directory: str, kind: str | None, **asked: Any) -> None:
    """Draw the figures of RUN again, or one for a paper.

    With --figure one file as wide as a column or a page of a paper, with its fonts in it.
    """
    if kind is not None:
        _plot_for_print(run_directory, kind, **asked)
        return
    if said := [f"--{name.removesuffix('s')}" for name, value in asked.items() if value]:
        raise click.UsageError(f"{', '.join(said)}: say with --figure which figure that is for")
    from sim.analysis.result import Result
    from sim.plots import write_adaptation, write_figures
    from sim.storage.backends import unless_untold

    result = Result.open(run_directory)
    paths = write_figures(result.run)
    if not result.shifts().empty:
        with unless_untold():
            paths += write_adaptation(result.run, result.adaptation())
    for path in paths:
        click.echo(visible(str(path)))


def _plot_for_print(run_directory: str, kind: str, *, out: Path | None, width: str | None, **asked: Any) -> None:
    from sim.plots.for_print import width_in, write_figure
    from sim.storage.run_directory import RunDirectory

    destination = out or Path(f"{_name_of(run_directory)}-{kind}.pdf")
    inches = width_in(width or "column")
    path = write_figure(RunDirectory.open(run_directory), kind, destination, width=inches, **asked)
    click.echo(visible(str(path)))


@main.command()
@click.argument("run_directory", metavar="RUN")
def report(run_directory: str) -> None:
    """Write the report of RUN again, as one page.

    The answer in a sentence and a table, curves, a map to replay, and what was run: report.html in RUN, which needs no
    network and no server. A run does that by itself.
    """
    from sim.analysis.result import Result
    from sim.report import write

    click.echo(visible(f"wrote {write(Result.open(run_directory))}"))


@main.command()
@click.argument("run_directories", metavar="RUN RUN...", nargs=-1, required=True)
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("compare.html"), show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace the file if it is there.")
def compare(run_directories: tuple[str, ...], out: Path, overwrite: bool) -> None:
    """Put several runs side by side, in one page.

    The same page as `report`, with the mechanisms of all runs in each table and chart, compared paired by user, and
    what differs between the scenarios.
    """
    from sim.analysis.result import Result
    from sim.errors import input_errors
    from sim.report import page
    from sim.storage.run_directory import atomic_file

    if len(run_directories) < 2:
        raise click.UsageError("one run is not compared with anything: name two or more, or use `lppm-sim report`")
    if len({Path(name).resolve() for name in run_directories}) < len(run_directories):
        raise click.UsageError("a run is named twice: it differs in nothing from itself")
    if out.suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"{out} must end in .html: the comparison is a page")
    if out.exists() and not overwrite:
        raise click.UsageError(f"{out} is there already: choose another name with -o or add --overwrite")
    with input_errors("the page cannot be written"):
        content = page([Result.open(directory) for directory in run_directories]).encode()
        with atomic_file(out) as file:
            file.write(content)
    click.echo(visible(f"wrote {out}"))


@main.command(name="check-component")
@click.argument("component", metavar="MODULE:CLASS")
@click.option(
    "--as",
    "family",
    type=click.Choice(["mobility", "demand", "belief", "design", "attack"]),
    help="What it is, where that cannot be told from its methods.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of it; may be repeated.")
def check_component(component: str, family: str | None, settings: tuple[str, ...]) -> None:
    """Try your own component on the contract.

    This imports MODULE and runs its code.
    """
    from sim.checks import check as check_all
    from sim.cli import console
    from sim.scenario.reading.source import parse_value

    for setting in settings:
        if not setting.partition("=")[0].isidentifier() or "=" not in setting:
            raise click.UsageError(f"--set: found {setting!r}, expected name=value, such as epsilon_per_km=1")
    said = {name: parse_value(value) for name, _, value in (setting.partition("=") for setting in settings)}
    outcomes = check_all(component, family=family, parameters=said)
    console.print_checks(component, outcomes)
    if any(outcome.problem for outcome in outcomes):
        click.get_current_context().exit(1)


@main.command()
@click.argument("run_directory", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def status(run_directory: str, as_json: bool) -> None:
    """Show how far RUN is.

    Only looks: while it goes on, from another shell; after a kill; when it is finished.
    """
    import dataclasses
    import json

    from sim.storage.status import status as look

    found = look(run_directory)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(found), indent=2))
        return
    from sim.cli import console

    console.print_status(found)


@main.command()
@click.argument("names", metavar="[ROW]...", nargs=-1)
@click.option("--quick", is_flag=True, help="In three minutes, with fewer rounds and less work in each.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="JSON file for the table and its samples.")
@click.option("--overwrite", is_flag=True, help="Replace the file if it is there.")
@click.option("--costs", is_flag=True, help="Instead: what each design, belief and attack costs, or those named.")
@click.option("--cells", type=click.IntRange(4, 10_000), default=250, help="Of --costs: size of the grid, 250.")
@click.option(
    "--solver", type=click.Choice(["ipm", "simplex", "clarabel"]), default="ipm", help="Of --costs: of linear programs."
)
def bench(
    names: tuple[str, ...], quick: bool, out: Path | None, overwrite: bool, costs: bool, cells: int, solver: str
) -> None:
    """Measure how near this machine's limits we come.

    One row for each target: what was measured, the limit beside it, their ratio and the target; with ROW only these.
    Ends with 1 if a target is missed. With --costs, CPU time of the parts of a scenario; large linear programs are
    solved only if they are named: lppm-sim bench --costs optimal_privacy --cells 100.
    """
    import json

    from sim import bench as benchmark
    from sim.cli import console
    from sim.errors import input_errors

    if threads := [f"{name}={os.environ[name]}" for name in _THREADS if os.environ[name] != "1"]:
        raise click.UsageError(f"limits are measured on one thread: unset {', '.join(threads)}, nothing was measured")
    if costs:
        if quick or out is not None:
            raise click.UsageError("--costs goes with --cells and --solver, found --quick or --out")
        _print_costs(names, cells, solver)
        return
    rows = {row.name: row for row in benchmark.ROWS}
    chosen = [rows[_known(name, rows, "row", "Rows")] for name in dict.fromkeys(names or rows)]
    if out is not None and out.exists() and not overwrite:
        raise click.UsageError(f"{out} is there already: choose another name or add --overwrite, nothing was measured")
    if out is not None and not out.parent.is_dir():
        raise click.UsageError(f"the folder {out.parent} does not exist: nothing was measured")
    _load_kernels()
    outcomes = benchmark.measure(
        chosen,
        benchmark.QUICK if quick else benchmark.FULL,
        progress=lambda row: click.echo(f"measuring {row.name}: {row.what}", err=True),
    )
    result = benchmark.document(outcomes, quick=quick)
    console.print_bench(outcomes, result["machine"])
    if out is not None:
        with input_errors("the table cannot be written"):
            out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if any(outcome.met is False for outcome in outcomes):
        click.get_current_context().exit(1)


def _print_costs(names: tuple[str, ...], cells: int, solver: str) -> None:
    from sim import bench as benchmark
    from sim.bench import costs
    from sim.cli import console

    parts = costs.parts()
    chosen = [parts[_known(name, parts, "part", "Parts")] for name in dict.fromkeys(names or parts)]
    _load_kernels()
    found = costs.measure(
        chosen,
        cells=cells,
        solver=solver,
        named=bool(names),
        progress=lambda part: click.echo(f"measuring {part.name}", err=True),
    )
    rows, cols = costs.shape_of(cells)
    console.print_costs(found, rows * cols, benchmark.machine())


main.add_command(data)
main.add_command(paper)
