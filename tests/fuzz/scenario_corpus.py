"""Scenarios to mutate, reduced so that each takes milliseconds, and the files that they read."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import yaml

from sim.attack import bayesian
from sim.components.registry import registry
from sim.scenario.lppms import short_names
from sim.scenario.reading.faults import ScenarioError
from sim.scenario.reading.source import parse_text
from tests.fuzz.values import places, value_at
from tests.support import ROOT, SMALL

MOST = {
    **{"count": 3, "queries": 10, "past_queries": 10, "visits": 12, "min_visits": 2, "at_most": 5, "at_least": 2},
    **{"first": 3, "last": 2, "at_query": 5, "at_visit": 5, "over_queries": 3, "every": 5, "places": 4, "hotspots": 3},
    **{"rows": 5, "cols": 4, "days": 1, "past_days": 1, "window": 5, "recent": 4, "replications": 1},
}
"""Largest value of a key in a reduced scenario."""

EVIL = "from pathlib import Path\nPath(__file__).with_name('PWNED').touch()\nclass Evil: ...\nmake = Evil\n"


def texts() -> list[tuple[str, str]]:
    """Return name and text of every shipped scenario, of the template and of the examples in the documentation."""
    files = [*sorted((ROOT / "scenarios").rglob("*.yaml")), ROOT / "sim" / "scenario" / "template.yaml"]
    named = [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in files]
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        blocks = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        named += [(f"{page.name} {i}", block) for i, block in enumerate(blocks)]
    return [*named, ("small", SMALL)]


def corpus() -> list[tuple[str, str, dict[str, Any]]]:
    """Return name, text and data of the elements of `texts` that are mappings."""
    base = _data(SMALL, "small")
    parsed = [(name, text, data) for name, text in texts() if (data := _data(text, name))]
    # Examples in the documentation are often fragments, completed here by a small scenario.
    return [(name, text, data if {"users", "lppms"} <= data.keys() else base | data) for name, text, data in parsed]


def _data(text: str, name: str) -> dict[str, Any]:
    """Return the data of a scenario; nothing for a list, which some examples in the documentation are."""
    try:
        data = parse_text(text, name).data
    except ScenarioError as error:
        if [fault.code for fault in error.faults] != ["wrong-type"]:
            raise
        return {}
    return data if isinstance(data, dict) else {}


def cut_down(data: Any, rng: Random) -> Any:
    """Return a scenario of the same kinds with few users, queries, cells, mechanisms and points."""
    small = _small(data, rng)
    if isinstance(small, dict) and "lppms" in small:
        small["replications"] = 1
        small.setdefault("seed", 1)
        if small.get("world", {}).get("grid", "san_francisco") == "san_francisco":
            small["world"] = {**small.get("world", {}), "grid": {"kind": "san_francisco", "rows": 5, "cols": 4}}
    return small


def _small(value: Any, rng: Random, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _small(item, rng, name) for name, item in value.items()}
    if isinstance(value, list):
        most = 3 if key in ("lppms", "attacks") else 2
        chosen = sorted(rng.sample(range(len(value)), min(most, len(value))))
        return [_small(value[i], rng) for i in chosen]
    if key in MOST and isinstance(value, int | float) and not isinstance(value, bool):
        return min(value, MOST[key])
    return value


def kind_of_family(rng: Random) -> tuple[str, str]:
    """Return a family of components and one of its kinds."""
    family = rng.choice(("grid", "roads", "distance", "mobility", "demand", "shift", "training", "belief", "design"))
    return family, rng.choice(list(registry.kinds(family)))


def plausible(data: dict[str, Any], rng: Random) -> None:
    """Apply a change that the scenario is likely to accept."""
    match rng.randrange(6):
        case 0:
            data["lppms"] = rng.sample(list(short_names()), rng.randint(1, 3))
        case 1:
            data["attacks"] = rng.sample(list(bayesian.SHORT_NAMES), rng.randint(1, 3))
        case 2:
            data["record"] = rng.choice(_RECORDS)
        case 3:
            data.update(rng.choice(_SETTINGS))
        case 4:
            data["sweep"] = {"lppms.*.design.quality_budget_km": [rng.choice((0.01, 0.3, 1, 3, 100))]}
        case _:
            numbers = [path for path in places(data) if type(value_at(data, path)) in (int, float)]
            if numbers:
                *above, key = rng.choice(numbers)
                holder = value_at(data, tuple(above))
                factor = rng.choice((0, 0.01, 0.1, 0.5, 2, 10))
                holder[key] = type(holder[key])(holder[key] * factor)


_RECORDS: tuple[Any, ...] = (
    *("summary", {"log": "summary", "window": 3}, {"expected": False}, {"posterior": True, "epsilon": "euclidean"}),
    *({"snapshots": []}, {"snapshots": [1, 2, 1000000]}, {"epsilon": "privacy"}, {"epsilon": "quality"}),
)
_SETTINGS: tuple[dict[str, Any], ...] = (
    *(
        {"names": "hidden"},
        {"markov_restart": "daily"},
        {"attacks": []},
        {"training": {}},
        {"sweep": {}},
        {"shifts": []},
    ),
    *({"replications": {"until_half_width_km": 0.5, "at_least": 2, "at_most": 3}}, {"seed": 2**63 - 1}),
    {
        "training": {
            "both": {"kind": "own_and_others", "own": "own", "others": "rest"},
            "own": "own_past",
            "rest": "other_users",
        }
    },
    *({"training": {"own": "own_past"}}, {"training": {"test": "own_test"}}, {"training": {"none": "nothing"}}),
)


def enlarge(data: dict[str, Any], rng: Random) -> None:
    """Make the scenario far too large to simulate, within the limits of the keys: checking it must stay fast."""
    users = data["users"] if isinstance(data.get("users"), dict) else {}
    match rng.randrange(6):
        case 0:
            users |= {"count": rng.choice((20_000, 200_000, 1_000_000)), "queries": 10}
        case 1:
            users |= {"count": 2, "queries": rng.choice((100_000, 1_000_000))}
        case 2:
            data["replications"] = rng.choice((1_000_000, {"until_half_width_km": 0.001, "at_most": 1_000_000}))
        case 3:
            side = rng.choice((32, 100))
            data["world"] = {"grid": {"kind": "rectangle", "rows": side, "cols": side, "width_km": 20, "height_km": 20}}
        case 4:
            data["sweep"] = {"seed": list(range(rng.choice((500, 10_000))))}
        case _:
            data["training"] = {"others": {"kind": "others", "count": rng.choice((20_000, 1_000_000)), "queries": 100}}


def dump(data: Any) -> str:
    """Return data as YAML."""
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=10_000)
    return text


def plant(folder: Path, data: Path) -> None:
    """Write the files that scenarios read, and modules that create a file when they are imported."""
    (folder / "evil.py").write_text(EVIL)
    (folder / "evil_package").mkdir()
    (folder / "evil_package" / "__init__.py").write_text(EVIL)
    (folder / "evil_package" / "inner.py").write_text(EVIL)
    (folder / "traces").mkdir()
    (folder / "data").mkdir()
    for path in data.iterdir():
        shutil.copy(path, folder / "data")
        if path.suffix == ".csv":
            shutil.copy(path, folder)
    shutil.copy(data / "checkins.csv", folder / "traces")


def write_data(folder: Path) -> None:
    """Write small data files with the names that shipped scenarios use."""
    folder.mkdir()
    rows = list(_check_ins())
    frame = pd.DataFrame(rows, columns=["user", "time_s", "lat", "lon"])
    for name in ("checkins.csv", "gps.csv"):
        (folder / name).write_text(frame.to_csv(index=False, lineterminator="\n"))
    for name in ("brightkite", "gowalla"):
        frame.to_parquet(folder / f"{name}.parquet")
    cabs = pd.DataFrame(list(_cabs()), columns=["user", "time_s", "lat", "lon"]).assign(occupied=False)
    cabs.to_parquet(folder / "cabspotting.parquet")
    nodes = [f"{10 * r + c},{37.56 + 0.05 * r},{-122.51 + 0.03 * c}" for r in range(5) for c in range(5)]
    edges = [
        f"{10 * r + c},{10 * s + d},3000,30"
        for r in range(5)
        for c in range(5)
        for s, d in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1))
        if 0 <= s < 5 and 0 <= d < 5
    ]
    for name, header, lines in (("nodes", "osmid,lat,lon", nodes), ("edges", "u,v,length_m,speed_mph", edges)):
        content = "\n".join([header, *lines, ""]).encode()
        (folder / f"sf_road_{name}.csv.gz").write_bytes(gzip.compress(content, mtime=0))


def _check_ins() -> Iterator[tuple[str, int, float, float]]:
    rng = Random("check-ins")
    for user in range(6):
        for visit in range(20 if user < 4 else 1):
            yield str(user), 1_270_000_000 + 7200 * visit, rng.uniform(37.56, 37.79), rng.uniform(-122.51, -122.38)


def _cabs() -> Iterator[tuple[str, int, float, float]]:
    rng = Random("cabs")
    for cab in range(4):
        for step in range(2 * 288):
            time_s = 1_211_007_600 + 300 * step + 60  # starts at local midnight in San Francisco
            yield f"cab{cab}", time_s, rng.uniform(37.56, 37.79), rng.uniform(-122.51, -122.38)
