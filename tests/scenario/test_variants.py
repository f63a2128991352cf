"""Points of a sweep are validated part by part, with the same result as validating each as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sim.execution.plan import tasks
from sim.scenario.load import MOST_BAD_VALUES
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import ScenarioError
from sim.scenario.reading.paths import assign, combinations, expand
from sim.scenario.sweep import SETTING, points
from sim.scenario.variants import Variants, frozen
from sim.storage.load import load

BASE: dict[str, Any] = {
    "name": "base",
    "world": {"grid": {"kind": "rectangle", "rows": 4, "cols": 5, "width_km": 5, "height_km": 4}},
    "users": {"count": 3, "queries": 20, "mobility": "favourites"},
    "training": {"others": {"kind": "others", "count": 3, "queries": 20}, "nothing": "nothing"},
    "lppms": ["SP-Exp", {"kind": "PEB-LH", "training": "nothing"}, "identity"],
    "attacks": ["sporadic", "markov-trained"],
}
SWEEPS: list[dict[str, list[Any]]] = [
    {},
    {"seed": [1, 2]},
    {"lppms.*.design.epsilon_per_km": [0, 0.5, 1], "users.queries": [5, 9]},
    {"lppms.0.design.epsilon_per_km": [1, 2], "lppms.PEB-LH.design.reveal_probability": [0.1, 0.2]},
    {"users.mobility": ["favourites", {"kind": "markov", "stay": 0.5}], "users.count": [2, 3]},
    {"attacks": [["sporadic"], ["markov"]], "record": ["queries", "summary"], "record.window": [5, 7]},
    {
        "world.grid.rows": [3, 4],
        "world.grid.cols": [5, 6],
        "replications": [1, {"until_half_width_km": 1, "at_most": 9}],
    },
    {"training.others.count": [2, 3], "names": ["known"], "markov_restart": ["never", "daily"]},
]


def as_a_whole(scenario: Scenario) -> list[Scenario]:
    """Return the scenarios of a sweep, each validated as a whole."""
    plain = scenario.model_dump(mode="json", exclude_unset=True, exclude={"sweep"})
    scenarios = []
    for values in combinations(dict(sorted(scenario.sweep.items()))):
        data = plain
        for path, value in values.items():
            for loc in expand(scenario, plain, path):
                data = assign(data, loc, value, model=scenario)
        scenarios.append(Scenario.model_validate(data))
    return scenarios


@pytest.mark.parametrize("sweep", SWEEPS)
def test_points_equal_scenarios_validated_as_a_whole(sweep: dict[str, list[Any]]) -> None:
    scenario = Scenario.model_validate(BASE | {"sweep": sweep})
    swept, whole = points(scenario), as_a_whole(scenario)
    assert [point.scenario.canonical() for point in swept] == [one.canonical() for one in whole]
    assert [point.setting for point in swept] == [one.canonical(only=SETTING) for one in whole]
    unset = [one.model_dump(mode="json", exclude_unset=True) for one in whole]
    assert [point.scenario.model_dump(mode="json", exclude_unset=True) for point in swept] == unset
    assert all(not point.scenario.sweep and point.scenario.place == scenario.place for point in swept)
    assert len(tasks(swept)) > 0


def test_each_value_of_a_part_is_validated_once() -> None:
    scenario = Scenario.model_validate(BASE)
    plain = scenario.model_dump(mode="json", exclude_unset=True)
    variants = Variants(scenario, plain)
    for epsilon in range(40):
        for queries in range(1, 41):
            changes = {("lppms", 0, "design", "epsilon_per_km"): epsilon, ("users", "queries"): queries}
            made = variants.scenario(changes)
            design: Any = made.lppms[0].design
            assert (design.epsilon_per_km, made.users.queries) == (epsilon, queries)
    assert variants.validations == 80
    assert plain == scenario.model_dump(mode="json", exclude_unset=True)


def test_values_of_different_types_are_different_values() -> None:
    scenario = Scenario.model_validate(BASE)
    variants = Variants(scenario, scenario.model_dump(mode="json", exclude_unset=True))
    variants.validate({("users", "queries"): 1})
    for wrong in (True, 1.0):
        with pytest.raises(ValueError, match="queries"):
            variants.validate({("users", "queries"): wrong})
    assert frozen({"a": [1]}) == frozen({"a": [True]})
    assert frozen({"a": [1]}, typed=True) != frozen({"a": [True]}, typed=True)


def test_the_number_of_reported_invalid_values_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps(BASE | {"sweep": {"users.queries": [f"x{number}" for number in range(500)]}}))
    with pytest.raises(ScenarioError) as error:
        load(path)
    assert error.value.codes == ["wrong-type"] * MOST_BAD_VALUES + ["not-validated"]
    assert "480 values" in error.value.faults[-1].message


def test_ten_thousand_points_of_one_path(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(json.dumps(BASE | {"sweep": {"lppms.0.design.epsilon_per_km": [k / 1000 for k in range(10_000)]}}))
    assert len(points(load(path))) == 10_000
