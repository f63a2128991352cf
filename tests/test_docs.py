"""The pages on mechanisms, attacks and figures have an entry for whatever there is, and links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from sim.analysis.metrics import METRICS
from sim.attack.face_value import FaceValueParameters
from sim.attack.identification import IdentificationParameters
from sim.components.registry import registry
from sim.scenario.reference import listing
from sim.storage.load import load

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
MECHANISMS, ATTACKS, FIGURES = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("mechanisms", "attacks", "figures")
)
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
"""Beliefs whose keys are told where the attack is that has them."""


@pytest.mark.parametrize(("family", "kind"), [(name, kind) for name in ("design", "belief") for kind in named(name)])
def test_every_design_and_belief_has_an_entry_with_all_its_keys(family: str, kind: str) -> None:
    explained = entry(MECHANISMS, kind)
    if kind in EXPLAINED_WITH_ATTACK:
        explained += entry(ATTACKS, EXPLAINED_WITH_ATTACK[kind])
    keys = registry.kinds(family)[kind].model_fields.keys() - {"kind"}
    assert [key for key in sorted(keys) if f"`{key}`" not in explained] == []
    assert f"| `{kind}` |" in MECHANISMS, "it is in the overview"


def test_every_short_name_is_told() -> None:
    told = set(re.findall(r"`([\w-]+)`", MECHANISMS))
    assert [name for name in named("lppm") if name not in told] == []


@pytest.mark.parametrize("kind", named("attack"))
def test_every_attack_has_an_entry(kind: str) -> None:
    explained = entry(ATTACKS, kind)
    assert "Cost:" in explained or "Cost with" in explained
    assert "Use it" in explained
    for spec in (FaceValueParameters, IdentificationParameters):
        if kind in get_args(spec.model_fields["kind"].annotation):
            keys = spec.model_fields.keys() - {"kind", "name"}
            assert [key for key in sorted(keys) if f"`{key}`" not in explained] == []


def test_every_distance_and_figure_is_told() -> None:
    assert [kind for kind in named("distance") if f"| `{kind}` |" not in MECHANISMS] == []
    assert [name for name in METRICS if f"`{name}`" not in FIGURES] == []


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        page = path.parent / file if file else path
        assert page.exists(), target
        assert not anchor or anchor in anchors(page), target


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", FIELD, ids=lambda path: path.stem)
def test_the_scenarios_that_the_pages_quote_load(path: Path) -> None:
    assert load(path).description
    assert "What to look at" in path.read_text(encoding="utf-8")
    assert f"{path.name}`" in MECHANISMS + ATTACKS + FIGURES


def test_quoted_scenarios_are_there() -> None:
    quoted = set(re.findall(r"`(scenarios/[\w/]+\.yaml)`", MECHANISMS + ATTACKS + FIGURES))
    assert quoted
    assert [name for name in sorted(quoted) if not (ROOT / name).exists()] == []
