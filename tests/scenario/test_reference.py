"""The reference of keys: every key is described, and the page in docs/ is up to date."""

from __future__ import annotations

from pathlib import Path

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
from sim.scenario.reference import SECTIONS, Key, keys, line, markdown

ROOT = Path(__file__).parents[2]

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


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert page == markdown(), "run: lppm-sim list --markdown > docs/reference.md"


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
