"""Options of commands that use one mechanism outside a scenario."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class MechanismOptions:
    """Which mechanism a command uses, in which world, and what it is trained on."""

    lppm: str | None
    grid: str | None
    scenario: Path | None
    settings: tuple[str, ...]
    train: Path | None
    data: Path | None
    allow_code: tuple[str, ...]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `sim.protect` that the options determine."""
        from sim.scenario.reading.source import parse_value

        if self.grid is not None and self.scenario is not None:
            raise click.UsageError("--grid and --scenario exclude each other")
        common = {"settings": self.settings, "training": self.train, "data": self.data, "allow_code": self._allowed()}
        if self.scenario is not None:
            return common | self._of_scenario(self.scenario)
        grid = None if self.grid is None else {"grid": parse_value(self.grid, "--grid")}
        return common | {"lppm": self.lppm, "world": grid}

    def missing(self) -> str:
        """Return the options that are required to build the mechanism and not given, or an empty string."""
        if self.scenario is not None:
            return ""
        names = [*([] if self.lppm else ["--lppm"]), *([] if self.grid else ["--grid or --scenario"])]
        return " and ".join(names)

    def options_of(self, arguments: Iterable[str], others: Container[str]) -> list[str]:
        """Return the given options that determine arguments of `sim.protect`; `others` are those of the command."""
        options = {"lppm": "--lppm", "world": "--grid", "settings": "--set", "training": "--train"}
        names = []
        for name in arguments:
            of_scenario = self.scenario is not None and name not in others and name != "settings"
            if of_scenario and not (name == "training" and self.train is not None):
                # Without the scenario, its mechanisms have no names.
                names += ["--scenario", *([] if self.lppm is None else ["--lppm"])]
            else:
                names.append(options.get(name, f"--{name.replace('_', '-')}"))
        return list(dict.fromkeys(names))

    def _of_scenario(self, path: Path) -> dict[str, Any]:
        from sim.protection.of_scenario import lppm_of, training_of
        from sim.storage.load import load

        scenario = load(path, data=self.data, allow_code=self._allowed())
        lppm = lppm_of(scenario, self.lppm)
        return {
            "lppm": lppm,
            "world": scenario.world,
            "markov_restart": scenario.markov_restart,
            "roads_seed": scenario.seed,
            "folder": scenario.place.folder,
            "training": training_of(scenario, lppm) if self.train is None else self.train,
        }

    def _allowed(self) -> Any:
        """Return the permission to import custom components."""
        from sim.cli.options import ANY_FOLDER

        folders = [folder for folder in self.allow_code if folder != ANY_FOLDER]
        return folders or (True if self.allow_code else None)


def mechanism_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of every command that uses one mechanism; it receives a `MechanismOptions` first."""

    @functools.wraps(command)
    def with_mechanism(
        *,
        lppm: str | None,
        grid: str | None,
        scenario: Path | None,
        settings: tuple[str, ...],
        train: Path | None,
        data: Path | None,
        allow_code: tuple[str, ...],
        **others: Any,
    ) -> None:
        command(MechanismOptions(lppm, grid, scenario, settings, train, data, allow_code), **others)

    path = click.Path(path_type=Path)
    options = [
        click.option("--lppm", metavar="NAME", help="Mechanism: a short name, or the name of one in the scenario."),
        click.option(
            "--grid", metavar="YAML", help="Grid: a kind, or a mapping such as '{kind: region, rows: 9, ...}'."
        ),
        click.option("--scenario", type=path, metavar="FILE", help="Scenario whose world and mechanisms to use."),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="PATH=VALUE",
            help="Change a value of the mechanism, such as design.epsilon_per_km=1; may be repeated.",
        ),
        click.option("--train", type=path, metavar="TRACES", help="Trace file to train the mechanism on."),
        click.option("--data", type=path, metavar="FOLDER", help="Folder of files named data:NAME."),
        click.option("--allow-code", multiple=True, metavar="[FOLDER]", help="Run custom components (module:Class)."),
    ]
    for option in reversed(options):
        with_mechanism = option(with_mechanism)
    return with_mechanism
