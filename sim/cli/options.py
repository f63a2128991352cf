"""Options that several commands share: the scenario to read, and how to run it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sim.scenario.models import Scenario

ANY_FOLDER = "\0"
"""Value of ``--allow-code`` without a folder: a string that no command line can contain."""
WORKERS = click.IntRange(1, 1024)


class ScenarioCommand(click.Command):
    """A command that reads a scenario. ``--allow-code`` may be followed by a folder."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Join ``--allow-code`` and the folder that follows it, so that it does not consume the scenario."""
        joined: list[str] = []
        for arg in args:
            if joined and joined[-1] == "--allow-code":
                is_folder = Path(arg).is_dir()
                joined[-1] = f"--allow-code={arg if is_folder else ANY_FOLDER}"
                if is_folder:
                    continue
            joined.append(arg)
        if joined and joined[-1] == "--allow-code":
            joined[-1] = f"--allow-code={ANY_FOLDER}"
        return super().parse_args(context, joined)


@dataclass(frozen=True, slots=True)
class ScenarioOptions:
    """Which scenario a command reads, what it changes, and whether its custom code may run."""

    path: Path
    settings: tuple[str, ...]
    seed: int | None
    data: Path | None
    allow_code: tuple[str, ...]

    def load(self) -> Scenario:
        """Load the scenario without asking for permission to run its custom code."""
        from sim.storage.load import load

        folders = [folder for folder in self.allow_code if folder != ANY_FOLDER]
        return load(
            self.path,
            settings=[*self.settings, *([] if self.seed is None else [f"seed={self.seed}"])],
            data=self.data,
            allow_code=folders or (True if self.allow_code else None),
        )

    def load_with_consent(self) -> Scenario:
        """Load the scenario; if it names custom code without permission, ask for it on a terminal."""
        from sim.cli.consent import with_consent

        return with_consent(self.load())


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Where a run is written, and where it is simulated."""

    out: str | None
    figures: bool
    workers: int | None
    dask: str | None
    dask_timeout: float | None

    def processes(self) -> int | None:
        """Return the number of worker processes; None for a Dask cluster without --workers."""
        return worker_count(self.workers, self.dask)

    def require_lasting_directory(self) -> None:
        """Raise a usage error if the run directory would not outlast the process."""
        from sim.storage.run_directory import RunDirectory

        if self.out is not None and not RunDirectory(self.out).shared:
            raise click.UsageError(f"{self.out} would be gone when this command ends: that is for `sim.run` in Python")


def worker_count(workers: int | None, dask: str | None) -> int | None:
    """Return the number of worker processes; None for a Dask cluster without --workers.

    The default is LPPM_SIM_WORKERS, or one per usable core. It conflicts with no other option.
    """
    from sim.execution.pool import usable_cores

    if workers is not None or dask is not None:
        return workers
    default = os.environ.get("LPPM_SIM_WORKERS")
    return int(WORKERS(default)) if default else usable_cores()


def column_names(settings: tuple[str, ...], option: str = "--columns") -> dict[str, str]:
    """Return the names of columns given as NAME=COLUMN; raise a usage error for another form."""
    names = {}
    for setting in settings:
        name, equals, column = setting.partition("=")
        if not equals or not name or not column:
            raise click.BadParameter(f"found {setting!r}, expected NAME=COLUMN", param_hint=option)
        names[name] = column
    return names


def scenario_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of every command that reads a scenario; it receives a `ScenarioOptions` first."""

    @functools.wraps(command)
    def with_scenario(
        *, scenario: Path, settings: Any, seed: int | None, data: Path | None, allow_code: Any, **others: Any
    ) -> None:
        command(ScenarioOptions(scenario, settings, seed, data, allow_code), **others)

    options = [
        click.argument("scenario", type=click.Path(path_type=Path)),
        click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", help="Change a value; may be repeated."),
        click.option("--seed", type=int, metavar="N", help="Short for --set seed=N."),
        click.option(
            "--data",
            type=click.Path(path_type=Path),
            metavar="FOLDER",
            help="Folder of the files that SCENARIO names as data:NAME.  [default: $LPPM_SIM_DATA]",
        ),
        click.option(
            "--allow-code",
            multiple=True,
            metavar="[FOLDER]",
            help="Run the custom components (module:Class) that SCENARIO names; with FOLDER, import only from it.",
        ),
    ]
    return _add_options(with_scenario, options)


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of every command that simulates; it receives a `RunOptions` second."""

    @functools.wraps(command)
    def with_run(
        scenario: ScenarioOptions,
        *,
        out: str | None,
        figures: bool,
        workers: int | None,
        dask: str | None,
        dask_timeout: float | None,
        **others: Any,
    ) -> None:
        command(scenario, RunOptions(out, figures, workers, dask, dask_timeout), **others)

    options = [
        click.option("-o", "--out", metavar="RUN", help="Run directory or URL.  [default: outputs/<name>-<digest>]"),
        click.option("--figures/--no-figures", default=True, help="Draw the figures and write the report at the end."),
        click.option(
            "--workers",
            type=WORKERS,
            help="Number of worker processes; results do not depend on it.  [default: one per core]",
        ),
        click.option(
            "--dask", metavar="ADDRESS", help="Run on the Dask cluster at ADDRESS; `local` starts one with --workers."
        ),
        click.option(
            "--dask-timeout",
            type=click.FloatRange(0, min_open=True),
            metavar="SECONDS",
            help="Longest wait while no Dask worker is available.  [default: 3600; 120 for `local`]",
        ),
    ]
    return _add_options(with_run, options)


def _add_options(command: Callable[..., None], options: list[Any]) -> Callable[..., None]:
    for option in reversed(options):
        command = option(command)
    return command


def file_stem(run_directory: str) -> str:
    """Return the default name, without suffix, of a file made from a run.

    >>> file_stem("s3://bucket/outputs/small-1a2b/")
    'small-1a2b'
    """
    if "://" in run_directory:
        return run_directory.rstrip("/").rpartition("/")[2]
    return Path(run_directory).resolve().name
