"""Target `scenario`: mutated scenario files and settings, loaded, checked and, if they are small, run."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from random import Random
from typing import Any

from sim.execution.failures import FailedChunks
from sim.execution.run import run
from sim.scenario.models import RepeatUntil, Scenario
from sim.scenario.reading.paths import combinations
from sim.storage.load import load
from tests.fuzz import scenario_corpus as seeds
from tests.fuzz.harness import ProblemError, command
from tests.fuzz.mutated_text import mutated_text
from tests.fuzz.values import HOSTILE_KINDS, component, number_near, odd, places, value_at

CASE = "case.json"


class Scenarios:
    """Shipped scenarios mutated as text, as data and by settings."""

    name = "scenario"

    def __init__(self, assets: Path) -> None:
        self._corpus = seeds.corpus()
        self._data = assets / "scenario-data"
        if not self._data.exists():
            seeds.write_data(self._data)

    def make(self, rng: Random, folder: Path) -> None:
        """Write a scenario, the files that it reads, and the action to perform."""
        seeds.plant(folder, self._data)
        name, text, data = rng.choice(self._corpus)
        small = seeds.cut_down(data, rng) if rng.random() < 0.9 else copy.deepcopy(data)
        way = rng.choices(("text", "data", "settings", "as it is", "enlarged"), (30, 50, 16.5, 3, 0.5))[0]
        settings: list[str] = []
        if way == "data":
            for _ in range(rng.choice((1, 1, 1, 2, 3))):
                if rng.random() < 0.5 and isinstance(small, dict):
                    seeds.plausible(small, rng)
                else:
                    small = mutated(small, rng, self._corpus)
        file = "manifest.json" if rng.random() < 0.06 else "scenario.yaml"
        action = rng.choices(("load", "check", "run", "check large"), (20, 67, 10, 3))[0]
        if way == "enlarged":
            seeds.enlarge(small, rng)
            action = "check large"
        text = seeds.dump(small) if way != "text" or rng.random() < 0.5 else text
        text = manifest(small, rng) if file == "manifest.json" else text
        content = text.encode("utf-8", "surrogatepass")
        if way == "text":
            content = mutated_text(content, rng)
        if way == "settings":
            settings = [setting(small, rng) for _ in range(rng.choice((1, 1, 2)))]
        (folder / file).write_bytes(content)
        case = {"file": file, "from": name, "way": way, "settings": settings, "action": action}
        (folder / CASE).write_text(json.dumps(case, indent=1))

    def drive(self, folder: Path) -> bool:
        """Load the scenario; if it is accepted, check or run it."""
        case = json.loads((folder / CASE).read_bytes())
        before = {path for path, *_ in os.walk(folder)} | {str(path) for path in folder.rglob("*")}
        settings, action = case["settings"], case["action"]
        try:
            scenario = load(Path(case["file"]), settings=settings, data=Path("data"))
            if action != "load" and (action == "check large" or is_small(scenario)):
                self._use(scenario, case, run_it=action == "run" and is_tiny(scenario))
        finally:
            if (folder / "PWNED").exists() or (folder / "evil_package" / "PWNED").exists():
                raise ProblemError("code of the scenario ran", f"{case}")
        new = {str(path) for path in folder.rglob("*") if "__pycache__" not in path.parts} - before
        if unexpected := sorted(path for path in new if not path.startswith(str(folder / "run"))):
            raise ProblemError("unexpected files", f"{unexpected[:3]}")
        return True

    def _use(self, scenario: Scenario, case: dict[str, Any], *, run_it: bool) -> None:
        if not run_it:
            options = [argument for text in case["settings"] for argument in ("--set", text)]
            command("check", case["file"], "--no-time", "--data", "data", *options)
            return
        try:
            result = run(scenario, out="run", figures=False)
        except FailedChunks as error:
            first = error.failures[0]
            kind = str(first["error"]).partition(":")[0]
            raise ProblemError(f"accepted, but the run fails ({kind})", f"{first['traceback'][-1500:]}") from None
        if scenario.own_components():
            raise ProblemError("custom code ran without permission", ", ".join(scenario.own_components()))
        if result.summary().empty:
            raise ProblemError("a run without results", str(result))


def manifest(data: Any, rng: Random) -> str:
    """Return the manifest of a run of a scenario, with the keys that `load` reads."""
    place = rng.choice((".", ".", ".", "/", "", "missing", "\0", None, 5, ["."]))
    whole = {"scenario": data, "folder": place, "schema_version": 3, "parts": [], "finished": True}
    if rng.random() < 0.2:
        whole[rng.choice(list(whole))] = odd(rng)
    return json.dumps(whole)


def mutated(data: Any, rng: Random, corpus: list[tuple[str, str, dict[str, Any]]]) -> Any:
    """Return the data after one mutation."""
    paths = list(places(data))
    if not isinstance(data, dict) or not paths:
        return odd(rng)
    path = rng.choice(paths)
    above, key = value_at(data, path[:-1]), path[-1]
    value = above[key]
    match rng.randrange(14):
        case 0 | 1:
            above[key] = odd(rng)
        case 2:
            del above[key]
        case 3 if isinstance(above, dict):
            above[rng.choice((f"{key}s", f" {key}", str(key).upper(), "kind", "name", "x", "é", ""))] = above.pop(key)
        case 4 if isinstance(value, int | float):
            above[key] = number_near(rng, value)
        case 5:
            other = rng.choice(corpus)[2]
            above[key] = copy.deepcopy(value_at(other, rng.choice(list(places(other)))))
        case 6:
            _sweep(data, path, value, rng)
        case 7 | 8:
            _other_kind(data, rng)
        case 9:
            above[key] = rng.choice((component(rng), rng.choice(HOSTILE_KINDS)))
        case 10 | 11 | 12:
            spot = component_spot(data, rng)
            value_at(data, spot[:-1])[spot[-1]] = component(rng)
        case _ if isinstance(above, list):
            above.insert(int(key), copy.deepcopy(value))
        case _:
            above[key] = [copy.deepcopy(value)] * rng.choice((1, 2, 40))
    return data


def _sweep(data: dict[str, Any], path: tuple[str | int, ...], value: Any, rng: Random) -> None:
    """Add a sweep over an existing value, sometimes with wildcards, with valid and invalid values."""
    steps = ["*" if isinstance(step, int) and rng.random() < 0.6 else str(step) for step in path]
    if rng.random() < 0.1:
        steps[rng.randrange(len(steps))] = rng.choice(("*", "**", "", "-1", "999", "kind", "é"))
    values = [value if rng.random() < 0.4 else odd(rng) for _ in range(rng.randrange(1, 4))]
    sweep = data.get("sweep")
    data["sweep"] = {**(sweep if isinstance(sweep, dict) else {}), ".".join(steps): values}


def _other_kind(data: dict[str, Any], rng: Random) -> None:
    """Change the kind of a component: mostly to one of the same family, without other keys."""
    family, kind = seeds.kind_of_family(rng)
    fits = {"grid", "roads", "mobility", "demand", "design", "belief"}
    spots = [path for path in places(data) if path[-1] == family] if family in fits else []
    if spots and rng.random() < 0.8:
        path = rng.choice(spots)
        value_at(data, path[:-1])[path[-1]] = {"kind": kind}
        return
    kinds = [path for path in places(data) if path[-1] == "kind"]
    if kinds:
        path = rng.choice(kinds)
        value_at(data, path[:-1])["kind"] = kind


def component_spot(data: Any, rng: Random) -> tuple[str | int, ...]:
    """Return the path of a component that a custom one may replace."""
    families = ("mobility", "demand", "belief", "design")
    spots = [path for path in places(data) if path[-1] in families or path[:-1] in (("attacks",), ("shifts",))]
    return rng.choice(spots) if spots else next(places(data))


def setting(data: Any, rng: Random) -> str:
    """Return a text for ``--set``, mostly with an existing path."""
    paths = list(places(data)) or [("seed",)]
    path = rng.choice(paths)
    steps = ["*" if isinstance(step, int) and rng.random() < 0.5 else str(step) for step in path]
    if rng.random() < 0.15:
        steps.append(rng.choice(("kind", "*", "0", "name", "é", "")))
    match rng.randrange(8):
        case 0:
            return rng.choice(
                ("", "=", "seed", "seed=", "=1", "a=b=c", "\x1b[31m=1", "users..count=1", "*=1", "sweep=1")
            )
        case 1:
            return f"sweep.{'.'.join(steps)}={seeds.dump([odd(rng), odd(rng)])}"
        case 2:
            value = value_at(data, path)
            return f"{'.'.join(steps)}={number_near(rng, value) if isinstance(value, int | float) else odd(rng)}"
        case 3:
            spot = ".".join(map(str, component_spot(data, rng)))
            return f"{rng.choice(('', 'sweep.'))}{spot}={json.dumps(rng.choice((component(rng), [component(rng)])))}"
        case _:
            return f"{'.'.join(steps)}={json.dumps(odd(rng))}"


def is_small(scenario: Scenario) -> bool:
    """Return whether checking takes well under a second."""
    users, grid = scenario.users, scenario.world.grid
    sizes = [(users.count, users.queries, users.days)]
    sizes += [
        (getattr(part, "count", None), getattr(part, "queries", None), getattr(part, "days", None))
        for part in scenario.training.values()
    ]
    few_queries = all(
        (count or 1) <= 20 and (queries or 1) <= 200 and (days or 0) <= 3 for count, queries, days in sizes
    )
    past = (users.past_queries or 0) <= 200 and (users.past_days or 0) <= 3
    dense = [getattr(part, "period_s", 60) for part in (users.demand,)]
    replications = scenario.replications
    times = replications.at_most if isinstance(replications, RepeatUntil) else replications
    points = sum(1 for _ in combinations(scenario.sweep)) if scenario.sweep else 1
    return few_queries and past and min(dense) >= 60 and grid.n_cells <= 300 and points * times <= 20


def is_tiny(scenario: Scenario) -> bool:
    """Return whether a run takes about a second."""
    grid, users = scenario.world.grid, scenario.users
    points = sum(1 for _ in combinations(scenario.sweep)) if scenario.sweep else 1
    few = (users.count or 6) <= 6 and (users.queries or 20) <= 30 and (users.days or 0) <= 1
    return grid.n_cells <= 36 and few and points * len(scenario.lppms) * len(scenario.attacks) <= 24
