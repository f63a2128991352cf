"""Build a scenario in Python, without a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sim.api.parameters import classes_in, plain
from sim.components.permission import AllowCode, CodeAccess
from sim.scenario.load import Settings, load_source
from sim.scenario.models import Scenario
from sim.scenario.reading.python_source import PythonSource

Component = str | Mapping[str, Any] | Any
"""A component: a kind, a mapping, a parameter object, or a custom class that can be imported."""


def make_scenario(
    scenario: Mapping[str, Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    seed: int | None = None,
    replications: int | Mapping[str, Any] | None = None,
    names: str | None = None,
    markov_restart: str | None = None,
    world: Component | None = None,
    users: Component | None = None,
    shifts: Sequence[Component] | None = None,
    training: Mapping[str, Component] | None = None,
    lppms: Sequence[Component] | None = None,
    attacks: Sequence[Component] | None = None,
    sweep: Mapping[str, Any] | None = None,
    record: Component | None = None,
    settings: Settings = (),
    folder: str | Path = ".",
    data: str | Path | None = None,
    allow_code: AllowCode | None = None,
    **unknown: Any,
) -> Scenario:
    """Build and validate a scenario from Python values.

    The keywords are the keys of a scenario file, with the same meaning, defaults and validation (page "Scenario
    keys" of the documentation). Values are plain Python data, NumPy numbers and arrays, or parameter objects.

    Parameters
    ----------
    scenario
        Keys of the scenario as one mapping; keywords take precedence.
    users, lppms
        Test population and mechanisms to compare. Required.
    attacks
        Adversary models. Default: the optimal sporadic and the optimal Markov attack.
    sweep
        Values to vary: a mapping from dotted paths to lists, such as
        ``{"lppms.*.design.epsilon_per_km": [0.5, 1, 2]}``.
    settings
        Values to change by dotted path, as in `sim.load`.
    folder, data
        Folder that file names are relative to, and folder of the files named ``data:NAME``.
    allow_code
        Permission to import components named ``module:Class`` when the scenario runs, as in `sim.load`. Components
        that are all given as classes need none: passing the class is the permission.
    name, description, seed, replications, names, markov_restart, world, shifts, training, record
        The other keys of a scenario.
    **unknown
        Any other keyword is an error that suggests the nearest key.

    Returns
    -------
    Scenario
        Run it with `sim.run`, write it with ``to_yaml()``, vary it with ``with_settings({...})``.

    Raises
    ------
    ScenarioError
        If anything is invalid. `faults` lists every fault with its dotted path.

    Examples
    --------
    >>> import sim
    >>> scenario = sim.make_scenario(
    ...     name="two users",
    ...     world={"grid": {"kind": "rectangle", "rows": 4, "cols": 5, "width_km": 5, "height_km": 4}},
    ...     users={"count": 2, "queries": 10, "mobility": "favourites"},
    ...     lppms=["SP-Exp", {"kind": "PEB-Exp", "design": {"epsilon_per_km": 2.0}}],
    ... )
    >>> [lppm.name for lppm in scenario.lppms]
    ['SP-Exp', 'PEB-Exp']
    >>> sim.make_scenario(scenario.model_dump(), sede=3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    sim.scenario.reading.faults.ScenarioError: make_scenario: sede: unknown key (did you mean 'seed'?); ...
    """
    keywords = {
        "name": name,
        "description": description,
        "seed": seed,
        "replications": replications,
        "names": names,
        "markov_restart": markov_restart,
        "world": world,
        "users": users,
        "shifts": shifts,
        "training": training,
        "lppms": lppms,
        "attacks": attacks,
        "sweep": sweep,
        "record": record,
    }
    raw = dict(scenario or {}) | {key: value for key, value in keywords.items() if value is not None} | unknown
    code = CodeAccess(beside=Path(folder)).granted(allow_code)
    made = load_source(
        PythonSource(name="make_scenario", data=plain(raw)), Path(folder), code, settings=settings, data=data
    )
    if allow_code is None and _only_given_classes(raw, made):
        made.at(made.place.folder, made.place.data, code.granted(True))
    return made


def _only_given_classes(raw: Mapping[str, Any], scenario: Scenario) -> bool:
    """Return whether every custom component of a scenario was given as a class."""
    names = {plain(component) for component in classes_in(raw)}
    return bool(names) and set(scenario.own_components()) <= names
