"""The points of a sweep: one scenario for each combination of the swept values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sim.scenario.models import Scenario
from sim.scenario.reading.paths import combinations, expand
from sim.scenario.variants import Variants

SETTING = frozenset({"seed", "markov_restart", "world", "users", "shifts", "training"})
"""Parts of a scenario that determine the users' movements and the training data."""


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of the swept values."""

    index: int
    values: dict[str, Any]
    scenario: Scenario
    setting: str
    """Canonical text of the parts in `SETTING`; points with equal texts share movements and training data."""


def points(scenario: Scenario) -> list[Point]:
    """Return a point for each combination of the swept values; a scenario without a sweep has one point.

    Points are numbered with the paths in alphabetical order: a manifest does not preserve the order of the file.
    """
    plain = scenario.model_dump(mode="json", exclude_unset=True, exclude={"sweep"})
    swept = dict(sorted(scenario.sweep.items()))
    places = {path: expand(scenario, plain, path) for path in swept}
    variants, texts = Variants(scenario, plain), CanonicalTexts()
    combined = []
    for index, values in enumerate(combinations(swept)):
        one = variants.scenario({loc: value for path, value in values.items() for loc in places[path]})
        combined.append(Point(index, values, one, texts.of(one, SETTING)))
    return combined


def columns(swept: Sequence[Point]) -> list[dict[str, Any]]:
    """Return the swept values of each point by column: a column for each path.

    If the values of a path are mappings that differ in numbers only, such as pairs of two parameters, there is a column
    for each of these numbers instead, as if they had been swept by paths of their own.
    """
    paths = swept[0].values
    numbers = {path: _differing_numbers([point.values[path] for point in swept]) for path in paths}
    split = {
        path: keys for path, keys in numbers.items() if keys and not {f"{path}.{key}" for key in keys} & set(paths)
    }
    return [
        {
            column: value
            for path, whole in point.values.items()
            for column, value in (
                [(f"{path}.{key}", whole[key]) for key in split[path]] if path in split else [(path, whole)]
            )
        }
        for point in swept
    ]


def _differing_numbers(values: Sequence[Any]) -> list[str]:
    """Return the keys of the numbers in which mappings differ; none if they also differ in anything else."""
    if not all(isinstance(value, dict) and value.keys() == values[0].keys() for value in values):
        return []
    differing = [key for key in values[0] if any(value[key] != values[0][key] for value in values)]
    return differing if all(type(value[key]) in (int, float) for value in values for key in differing) else []


class CanonicalTexts:
    """Cache of canonical texts: scenarios that share the objects of their parts share the text."""

    def __init__(self) -> None:
        self._texts: dict[Any, tuple[str, Scenario]] = {}

    def of(self, scenario: Scenario, only: frozenset[str]) -> str:
        """Return `scenario.canonical(only=only)`."""
        # The canonical text names the first training set, so `training` is part of the key. The scenario is stored with
        # its text to keep its objects alive: their ids stay unique.
        key = (only, *(id(getattr(scenario, part)) for part in sorted(only | {"training"})))
        if key not in self._texts:
            self._texts[key] = scenario.canonical(only=only), scenario
        return self._texts[key][0]


def models(swept: Iterable[Point]) -> dict[str, Point]:
    """Return, for each setting, its representative: the first point whose setting differs in the seed at most.

    The number of queries of a simulation is estimated from the representative, so the estimate depends neither on
    the order of requests nor on the progress of the run.
    """
    first: dict[str, Point] = {}
    model: dict[str, Point] = {}
    for point in swept:
        if point.setting not in model:
            without_seed = point.scenario.canonical(only=SETTING - {"seed"})
            model[point.setting] = first.setdefault(without_seed, point)
    return model
