"""The reference of scenario keys: every key is explained, every mapping and family has a chapter."""

from __future__ import annotations

import re

import pytest

from sim.belief.estimated_profile import EstimatedProfileParameters
from sim.belief.recursive_profile import RecursiveProfileParameters
from sim.components.registry import FAMILIES, registry
from sim.components.spec import Spec
from sim.lppm.designs.exponential import ExponentialParameters
from sim.mobility.recorded.replay import ReplayParameters
from sim.mobility.synthetic.commuters import CommutersParameters
from sim.mobility.synthetic.favourites import FavouritesParameters
from sim.scenario import people
from sim.scenario.reference import CHAPTERS, SECTIONS, Key, keys, line, sections_markdown

SPECS = [spec for _, spec in SECTIONS.values()] + [
    spec for family in FAMILIES for spec in registry.kinds(family).values()
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.__name__)
def test_every_key_of_every_kind_is_described(spec: type[Spec]) -> None:
    assert line(spec).endswith(".")
    assert [key.name for key in keys(spec)] == [name for name in spec.model_fields if name != "kind"]
    for key in keys(spec):
        assert key.meaning.endswith("."), f"{spec.__name__}.{key.name} has no docstring that ends in a full stop"
        assert key.allowed
        assert "\n" not in key.meaning
        assert "|" not in key.allowed + key.default + key.meaning


def test_every_mapping_and_family_is_in_one_chapter() -> None:
    names = [name for chapter in CHAPTERS.values() for name in chapter]
    assert sorted(names) == sorted([*SECTIONS, *FAMILIES])


def test_labels_are_unique() -> None:
    labels = re.findall(r"^\(([\w-]+)\)=$", sections_markdown(), flags=re.MULTILINE)
    assert {"mapping-world", "family-design", "design-exponential", "belief-module-Class"} <= set(labels)
    assert len(labels) == len(set(labels))


def test_every_key_has_a_row() -> None:
    page = sections_markdown()
    for spec in SPECS:
        for key in keys(spec):
            assert f"| `{key.name}` | {key.allowed} | {key.default} | {key.meaning} |" in page


def key(spec: type[Spec], name: str) -> Key:
    """Return the entry of one key."""
    return next(key for key in keys(spec) if key.name == name)


def test_ranges_choices_and_defaults_are_described() -> None:
    assert key(FavouritesParameters, "explore").allowed == "number, 0 to 1"
    assert key(FavouritesParameters, "spread_km").allowed == "number, above 0"
    assert key(FavouritesParameters, "places").allowed == "whole number, at least 1"
    assert key(CommutersParameters, "work_start_h").allowed == "number, 0 to below 24"
    assert key(ReplayParameters, "shuffle") == Key(
        "shuffle", "true or false", "false", key(ReplayParameters, "shuffle").meaning
    )
    assert key(ReplayParameters, "file").default == "required"
    assert key(people.UsersSpec, "demand").default == "every_visit"
    assert key(people.UsersSpec, "demand").allowed == "one of every_visit, periodic, poisson"
    assert key(EstimatedProfileParameters, "solver").allowed == "one of newton, em"
    assert key(EstimatedProfileParameters, "forget").allowed == "none, or mapping"
    assert key(EstimatedProfileParameters, "forget").default == "none"
    assert key(EstimatedProfileParameters, "regularise").allowed == "none, or cross_validated, or mapping"
    assert key(RecursiveProfileParameters, "half_life_queries").allowed == "none, or number, above 0"
    assert key(ExponentialParameters, "epsilon_per_km").allowed == "number, at least 0"
