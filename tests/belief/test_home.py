"""The home belief compared with enumeration of all homes and all cells of tiny worlds."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.belief.fixed_profile import FixedProfile
from sim.belief.home import HomeProfile, HomeProfileParameters
from sim.errors import InputError
from sim.inference.bayes import decide
from sim.interfaces import Belief, FloatArray
from sim.lppm.channels.exponential import exponential
from sim.mobility.synthetic.commuters import Commuters, CommutersParameters
from sim.rng import stream
from sim.scenario.models import Scenario
from sim.simulation.setting import Setting
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from sim.world.roads.lattice import lattice
from tests.support import made, raises_code

HOUR_S, DAY_S = 3_600, 86_400
PROFILE = np.array([0.2, 0.5, 0.3])
EVEN = 0.999 * PROFILE + 0.001 / 3


def enumerated(nights: FloatArray, away: float) -> tuple[FloatArray, FloatArray]:
    """Return the posteriors of the home and of the last cell by summing over all homes and all cells of all nights."""
    home, last = np.zeros(3), np.zeros(3)
    for h in range(3):
        for cells in itertools.product(range(3), repeat=len(nights)):
            p = EVEN[h]
            for row, x in zip(nights, cells, strict=True):
                p *= row[x] * ((1 - away) * (x == h) + away * PROFILE[x])
            home[h] += p
            last[cells[-1]] += p
    return home / home.sum(), last / last.sum()


@pytest.mark.parametrize("away", [0.0, 0.1, 0.7])
def test_home_and_posterior_equal_enumeration_and_reports_by_day_are_ignored(away: float) -> None:
    rows = np.random.default_rng(0).random((5, 3))
    belief = HomeProfile(HomeProfileParameters(away=away), profile=PROFILE)
    as_protocol: Belief = belief
    for day, row in enumerate(rows):
        assert as_protocol.prior(day * DAY_S + 12 * HOUR_S).tolist() == PROFILE.tolist()
        noon = as_protocol.observe(day * DAY_S + 12 * HOUR_S, row[::-1])
        assert noon == pytest.approx(PROFILE * row[::-1] / (PROFILE @ row[::-1]))
        posterior = as_protocol.observe(day * DAY_S + 23 * HOUR_S, row)
        home, last = enumerated(rows[: day + 1], away)
        assert posterior == pytest.approx(last)
        assert belief.home == pytest.approx(home)
        expected = (1 - away) * home + away * PROFILE
        assert as_protocol.prior((day + 1) * DAY_S + 2 * HOUR_S) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("parameters", "inside", "outside"),
    [
        ({}, [22.0, 23.99, 0.0, 5.99], [6.0, 12.0, 21.99]),
        ({"from_h": 1.0, "until_h": 5.5}, [1.0, 5.49], [0.99, 5.5, 23.0]),
        ({"utc_offset_h": -8.0}, [6.0, 13.99], [5.99, 14.0, 23.0]),
        ({"from_h": 20.0, "until_h": 24.0}, [20.0, 23.99], [0.0, 19.99]),
    ],
)
def test_night_is_an_interval_of_local_time(
    parameters: dict[str, Any], inside: list[float], outside: list[float]
) -> None:
    belief = made(HomeProfile, profile=PROFILE, **parameters)
    for day in (0, 9):
        assert all(belief.at_home(round((24 * day + hour) * HOUR_S)) for hour in inside)
        assert not any(belief.at_home(round((24 * day + hour) * HOUR_S)) for hour in outside)


def test_home_can_be_inferred_outside_the_support_of_the_profile() -> None:
    belief = HomeProfile(HomeProfileParameters(), profile=[1.0, 0.0])
    for day in range(40):
        belief.observe(day * DAY_S, np.array([0.3, 0.7]))
    assert belief.home[1] > 0.99
    assert belief.fallbacks == 0


def test_report_without_mass_still_updates_the_home() -> None:
    belief = HomeProfile(HomeProfileParameters(away=0.0), profile=[1.0, 0.0])
    for night in range(3):
        belief.observe(night * DAY_S, np.array([1.0, 0.0]))
    assert belief.observe(3 * DAY_S, np.array([0.0, 1.0])).tolist() == [0, 1]
    assert belief.fallbacks == 1
    for night in range(4, 8):
        belief.observe(night * DAY_S, np.array([0.0, 1.0]))
    assert belief.home[1] > 0.99


def test_half_life_lets_the_belief_adapt_to_a_new_home() -> None:
    row = np.array([0.6, 0.2, 0.2])
    sure, fading = (
        HomeProfile(HomeProfileParameters(), profile=PROFILE),
        HomeProfile(HomeProfileParameters(half_life_days=2.0), profile=PROFILE),
    )
    for night in range(30):
        for belief in (sure, fading):
            belief.observe(night * DAY_S, row)
    assert fading.prior(60 * DAY_S) == pytest.approx(0.9 * EVEN + 0.1 * PROFILE, abs=0.01)
    assert sure.prior(60 * DAY_S)[0] > 0.9
    for night in range(30, 38):
        for belief in (sure, fading):
            belief.observe(night * DAY_S, row[::-1])
    assert fading.home[2] > 0.9
    assert sure.home[0] > 0.9
    evidence = np.log((0.9 * row + 0.1 * PROFILE @ row) ** 0.5)
    once = HomeProfile(HomeProfileParameters(half_life_days=2.0), profile=PROFILE)
    once.observe(0, row)
    weights = EVEN * np.exp(evidence)
    assert once.prior(2 * DAY_S) == pytest.approx(0.9 * weights / weights.sum() + 0.1 * PROFILE)


def test_home_belief_locates_commuters_better_than_a_fixed_profile() -> None:
    """Hourly reports of ten nights: both beliefs have the same profile, one also models the home."""
    grid = Grid.rectangle(rows=3, cols=4, width_km=12.0, height_km=9.0)
    distance = manhattan(grid)
    roads = lattice(grid, rng=stream(1, "roads"))
    mobility = Commuters(CommutersParameters(), locations=grid, roads=roads, seed=1)
    channel, pooled = exponential(distance, 0.3), np.full(12, 1 / 12)
    errors_km: dict[str, list[float]] = {"home": [], "sporadic": []}
    home_errors_km = []
    for user in mobility.users(6):
        home = HomeProfile(HomeProfileParameters(), profile=pooled)
        beliefs: dict[str, Belief] = {"home": home, "sporadic": FixedProfile(profile=pooled)}
        visits = mobility.visits(user, stream(1, "moves", user))
        visit, after = next(visits), next(visits)
        rng = stream(1, "noise", user)
        for time_s in range(0, 10 * DAY_S, HOUR_S):
            while after.time_s <= time_s:
                visit, after = after, next(visits)
            likelihood = channel.likelihood(channel.sample(visit.cell, rng))
            for name, belief in beliefs.items():
                estimate = decide(belief.observe(time_s, likelihood), distance.matrix_km, distance.shape)
                if home.at_home(time_s):
                    errors_km[name].append(float(distance.matrix_km[visit.cell, estimate]))
        true_home = roads.cell[mobility.places(user)[0]]
        home_errors_km.append(distance.matrix_km[true_home, home.home.argmax()])
    assert np.mean(errors_km["home"]) < 0.5 * np.mean(errors_km["sporadic"])
    assert np.mean(home_errors_km) < 1.0


def test_pickled_copy_continues_like_the_original() -> None:
    belief = HomeProfile(HomeProfileParameters(half_life_days=3.0), profile=PROFILE)
    belief.observe(0, np.array([0.5, 0.2, 0.1]))
    copy = pickle.loads(pickle.dumps(belief))
    assert copy.prior(DAY_S).tolist() == belief.prior(DAY_S).tolist()


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"from_h": 25.0}, r"(?s)from_h.*input_value=25.0"),
        ({"until_h": -1.0}, r"(?s)until_h.*input_value=-1.0"),
        ({"from_h": 0.0, "until_h": 24.0}, "`from_h`.*`until_h`.* 0.0 and 24.0"),
        ({"away": 1.5}, r"(?s)away.*input_value=1.5"),
        ({"half_life_days": 0.0}, r"(?s)half_life_days.*input_value=0.0"),
    ],
)
def test_invalid_parameters_are_rejected_with_their_value(parameters: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        made(HomeProfile, profile=PROFILE, **parameters)


def test_home_attack_requires_times_and_a_non_empty_night(
    make_scenario: Callable[..., Scenario], tmp_path: Path
) -> None:
    (tmp_path / "order.csv").write_text("user,order,cell\na,1,0\na,2,3\n")
    users = {"mobility": {"kind": "replay", "file": str(tmp_path / "order.csv")}}
    untimed: dict[str, Any] = {"users": users, "training": {}, "lppms": ["identity"]}
    assert Setting(make_scenario(attacks=["sporadic"], **untimed)).users == ["a"]
    with pytest.raises(InputError, match=r"\bhome\b"):
        _ = Setting(make_scenario(attacks=["home"], **untimed)).users
    with raises_code(ValueError, "empty-interval"):
        make_scenario(attacks=[{"kind": "home", "belief": {"from_h": 0, "until_h": 24}}])
