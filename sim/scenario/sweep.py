"""The points of a sweep: every combination of the swept values, each a scenario of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sim.scenario.models import Scenario
from sim.scenario.reading.paths import combinations, expand
from sim.scenario.variants import Variants

SETTING = frozenset({"seed", "markov_restart", "world", "users", "shifts", "training"})
"""The parts of a scenario that decide where people are and what is known of them."""


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of the swept values."""

    index: int
    values: dict[str, Any]
    scenario: Scenario
    setting: str
    """What decides where people are and what is known of them, as text: points with the same share it."""


def points(scenario: Scenario) -> list[Point]:
    """Return every combination of the swept values as a scenario of its own; a scenario without a sweep is one.

    They are numbered by the names of the paths, not by the order of the file, which a manifest does not keep.
    """
    plain = scenario.model_dump(mode="json", exclude_unset=True, exclude={"sweep"})
    swept = dict(sorted(scenario.sweep.items()))
    places = {path: expand(scenario, plain, path) for path in swept}
    variants, texts = Variants(scenario, plain), CanonicalTexts()
    made = []
    for index, values in enumerate(combinations(swept)):
        one = variants.scenario({loc: value for path, value in values.items() for loc in places[path]})
        made.append(Point(index, values, one, texts.of(one, SETTING)))
    return made


class CanonicalTexts:
    """Canonical texts of scenarios, made once for those that share the objects of their parts."""

    def __init__(self) -> None:
        self._made: dict[Any, tuple[str, Scenario]] = {}

    def of(self, scenario: Scenario, only: frozenset[str]) -> str:
        """Return `scenario.canonical(only=only)`."""
        # Which training set is the first is written out with what is trained. Beside a text lies the scenario, so
        # that an id stays that of one object.
        key = (only, *(id(getattr(scenario, part)) for part in sorted(only | {"training"})))
        if key not in self._made:
            self._made[key] = scenario.canonical(only=only), scenario
        return self._made[key][0]


def models(found: Iterable[Point]) -> dict[str, Point]:
    """Return, for each setting, the first point that differs from it in the seed alone: it stands for the others.

    Whoever asks how many queries a simulation has asks of this one, so that the answer depends neither on what is
    asked first nor on what is done already.
    """
    first: dict[str, Point] = {}
    model: dict[str, Point] = {}
    for point in found:
        if point.setting not in model:
            alike = point.scenario.canonical(only=SETTING - {"seed"})
            model[point.setting] = first.setdefault(alike, point)
    return model
