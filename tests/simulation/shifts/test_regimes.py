"""Statistics between shifts, and the attacks that use them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.attack.optimal import OptimalAttack
from sim.belief.fixed_profile import FixedProfile
from sim.belief.in_force import InForce
from sim.belief.markov_filter import MarkovFilter
from sim.execution.adversary_knowledge import known_statistics, statistics_in_force
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from tests.simulation.shifts.lives import (
    QUERIES,
    Build,
)
from tests.support import MakeScenario


def test_statistics_are_computed_between_shifts(population: Build) -> None:
    own = population("favourites", {"kind": "holiday", "at_query": 31, "for_queries": 20, "users": ["user-002"]})
    assert own.regimes("user-001") == [(1, own.truth("user-001"))]
    regimes = own.regimes("user-002")
    assert [first for first, _ in regimes] == [1, 31, 51]
    cells = own.lives["user-002"].test.cells
    for (_, regime), (low, high) in zip(regimes, [(0, 30), (30, 50), (50, QUERIES)], strict=True):
        np.testing.assert_allclose(regime.profile, np.bincount(cells[low:high], minlength=64) / (high - low))
    assert own.regimes("user-002") is regimes
    whole = np.bincount(cells, minlength=64) / QUERIES
    np.testing.assert_allclose(own.truth("user-002").profile, whole)


@pytest.mark.parametrize(
    ("attack", "belief"),
    [
        ({"kind": "sporadic"}, InForce),
        ({"kind": "markov"}, InForce),
        ({"kind": "sporadic", "knows": "whole_test"}, FixedProfile),
        ({"kind": "markov", "knows": "whole_test"}, MarkovFilter),
        ({"kind": "sporadic-trained"}, FixedProfile),
    ],
)
def test_attacks_with_test_statistics_know_those_in_force(
    attack: dict[str, Any], belief: type, make_scenario: MakeScenario
) -> None:
    scenario = make_scenario(attacks=[attack], shifts=[{"kind": "relocate", "at_query": 9, "users": ["user-001"]}])
    population = Population(Setting(scenario), 0)
    spec = scenario.attacks[0]
    built = spec.build(
        scenario.attack_context(
            population.setting.world, known_statistics(spec, population), statistics_in_force(spec, population)
        )
    )
    assert isinstance(built, OptimalAttack)
    assert type(built._belief_of("user-001")) is belief
    assert not isinstance(built._belief_of("user-002"), InForce), "the life of this user does not change"
