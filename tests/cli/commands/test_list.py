"""The command `list`: every kind of every family."""

from __future__ import annotations

import re
from typing import Any, get_args

from sim.components.custom import Custom
from sim.components.spec import Spec
from sim.scenario.lppms import short_names
from sim.scenario.reference import group_of, listing
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


def kind_lines(listed: str) -> dict[str, list[str]]:
    """Return the words of the line of each kind, without headings of groups and continued lines."""
    return {match[1]: match[2].split() for match in re.finditer(r"(?m)^  (\S+) {2,}(\S.*)$", listed)}


def test_list_shows_every_kind_with_a_line() -> None:
    lines = kind_lines(done("list"))
    assert lines.keys() == known_kinds() | short_names().keys()
    assert {"taxis", "estimated_profile", "PEB-Exp", "sporadic-trained", "graphml", "own_past"} < lines.keys()
    assert all(len(words) > 3 for words in lines.values())


def test_list_of_one_family() -> None:
    for family, (place, kinds) in listing().items():
        heading, _, lines = done("list", family).partition("\n")
        assert heading == f"{family}  ({place})"
        groups = {kind: group_of(family, kind) for kind in kinds}
        assert list(kind_lines(lines)) == sorted(kinds, key=groups.__getitem__)
    message = refused("list", "desing")
    assert "'desing'. Did you mean 'design'? Families: grid, locations, roads, distance, service, mobility" in message
    assert "[unknown-family]" in message
    assert "[unknown-kind]" in refused("list", "design", "horse")
    assert "Did you mean" not in refused("list", "horse")
