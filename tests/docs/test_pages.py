"""The pages on mechanisms, attacks and metrics have an entry for every component and every metric."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import get_args

import pytest

from sim.analysis.metrics import METRICS
from sim.attack.face_value import FaceValueParameters
from sim.attack.identification import IdentificationParameters
from sim.components.registry import registry
from sim.scenario.reference import listing
from sim.storage.load import load

ROOT = Path(__file__).parents[2]
BACKGROUND = ROOT / "docs" / "background"
MECHANISMS, ATTACKS, METRIC_PAGE = (
    (BACKGROUND / f"{name}.md").read_text(encoding="utf-8") for name in ("mechanisms", "attacks", "metrics")
)
MECHANISMS += (BACKGROUND / "phones.md").read_text(encoding="utf-8")
"""Pages with one section for each design and belief."""
FIELD = sorted((ROOT / "scenarios" / "field").glob("*.yaml"))


def named(family: str) -> list[str]:
    return [kind for kind in listing()[family][1] if kind != "module:Class"]


def entry(page: str, kind: str) -> str:
    """Return the section whose heading ends with a kind."""
    sections = re.split(r"^(?=#{2,3} )", page, flags=re.MULTILINE)
    matches = [section for section in sections if f"`{kind}`" in section.splitlines()[0]]
    assert len(matches) == 1, f"docs: write one section whose heading has `{kind}` and that names all of its keys"
    return matches[0]


EXPLAINED_WITH_ATTACK = {"markov_em": "markov-learning", "home": "home"}
"""Beliefs whose keys are explained with the attack that uses them."""


@pytest.mark.parametrize(("family", "kind"), [(name, kind) for name in ("design", "belief") for kind in named(name)])
def test_every_design_and_belief_has_an_entry_with_all_its_keys(family: str, kind: str) -> None:
    explained = entry(MECHANISMS, kind)
    if kind in EXPLAINED_WITH_ATTACK:
        explained += entry(ATTACKS, EXPLAINED_WITH_ATTACK[kind])
    keys = registry.kinds(family)[kind].model_fields.keys() - {"kind"}
    assert [key for key in sorted(keys) if f"`{key}`" not in explained] == []
    assert f"| `{kind}` |" in MECHANISMS, "missing in the overview"


def test_every_short_name_is_explained() -> None:
    explained = set(re.findall(r"`([\w-]+)`", MECHANISMS))
    assert [name for name in named("lppm") if name not in explained] == []


@pytest.mark.parametrize("kind", named("attack"))
def test_every_attack_has_an_entry(kind: str) -> None:
    explained = entry(ATTACKS, kind)
    assert "Cost:" in explained or "Cost with" in explained
    assert "Use it" in explained
    for spec in (FaceValueParameters, IdentificationParameters):
        if kind in get_args(spec.model_fields["kind"].annotation):
            keys = spec.model_fields.keys() - {"kind", "name"}
            assert [key for key in sorted(keys) if f"`{key}`" not in explained] == []


def test_every_distance_and_metric_is_explained() -> None:
    assert [kind for kind in named("distance") if f"| `{kind}` |" not in MECHANISMS] == []
    assert [name for name in METRICS if f"`{name}`" not in METRIC_PAGE] == []


@pytest.mark.parametrize("path", FIELD, ids=lambda path: path.stem)
def test_scenarios_of_the_field_load_and_are_mentioned(path: Path) -> None:
    assert load(path).description
    assert "What to look at" in path.read_text(encoding="utf-8")
    assert f"{path.name}`" in MECHANISMS + ATTACKS + METRIC_PAGE


def test_mentioned_scenarios_exist() -> None:
    quoted = set(re.findall(r"`(scenarios/[\w/]+\.yaml)`", MECHANISMS + ATTACKS + METRIC_PAGE))
    assert quoted
    assert [name for name in sorted(quoted) if not (ROOT / name).exists()] == []


def commands_in(path: Path) -> list[str]:
    """Return the commands `lppm-sim run` in the comments of a scenario that need no folder of the user (--data)."""
    comments = "\n".join(re.findall(r"^# ?(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE))
    commands = re.findall(r"^ +(lppm-sim run [^\\\n]*(?:\\\n[^\\\n]*)*)$", comments, re.MULTILINE)
    return [command.replace("\\\n", " ") for command in commands if "--data" not in command]


COMMENTED = [
    pytest.param(path, command, id=f"{path.stem}-{i}")
    for path in sorted((ROOT / "scenarios").rglob("*.yaml"))
    for i, command in enumerate(commands_in(path))
]


@pytest.mark.parametrize(("path", "command"), COMMENTED)
def test_commands_in_the_comments_of_scenarios_are_valid(path: Path, command: str) -> None:
    _, _, file, *options = shlex.split(command)
    assert Path(file).name == path.name
    assert options[::2] == ["--set"] * (len(options) // 2)
    assert load(path, settings=options[1::2]).name == path.stem


def test_commands_in_comments_are_found() -> None:
    assert {"street_level-0", "city-0"} <= {str(parameter.id) for parameter in COMMENTED}
