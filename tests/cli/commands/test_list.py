"""The command `list`: every kind of every family."""

from __future__ import annotations

from typing import Any, get_args

from sim.components.custom import Custom
from sim.components.spec import Spec
from sim.scenario.lppms import short_names
from sim.scenario.reference import listing
from tests.support import done, refused


def known_kinds(model: type[Spec] = Spec) -> set[str]:
    """Return all kinds that the models of a scenario allow."""
    kinds = set()
    for child in model.__subclasses__():
        if child.__module__.startswith("sim.") and "kind" in child.model_fields:
            kind = child.model_fields["kind"].annotation
            kinds |= {"module:Class"} if issubclass(child, Custom) else {*texts(kind)}
        kinds |= known_kinds(child)
    return kinds


def texts(annotation: Any) -> list[str]:
    return [annotation] if isinstance(annotation, str) else [t for arg in get_args(annotation) for t in texts(arg)]


def test_list_shows_every_kind_with_a_line() -> None:
    lines = {line.split()[0]: line.split()[1:] for line in done("list").splitlines() if line.startswith(" ")}
    assert lines.keys() == known_kinds() | short_names().keys()
    assert {"taxis", "estimated_profile", "PEB-Exp", "sporadic-trained", "graphml", "own_past"} < lines.keys()
    assert all(len(words) > 3 for words in lines.values())


def test_list_of_one_family() -> None:
    for family, (place, kinds) in listing().items():
        heading, *lines = done("list", family).splitlines()
        assert heading == f"{family}  ({place})"
        assert [line.split()[0] for line in lines] == list(kinds)
    message = refused("list", "desing")
    assert "'desing'. Did you mean 'design'? Families: grid, roads, distance, mobility" in message
    assert "[unknown-family]" in message
    assert "[unknown-kind]" in refused("list", "design", "horse")
    assert "Did you mean" not in refused("list", "horse")
