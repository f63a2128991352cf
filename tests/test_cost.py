"""What `check` promises is what a run then does."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sim
from sim.cost import Cost
from sim.cost import estimate as estimate_within
from sim.errors import InputError
from sim.scenario.models import Scenario

MakeScenario = Callable[..., Scenario]
estimate = partial(estimate_within, limit_s=600)  # however busy the machine is

EPSILONS = {"lppms.*.design.epsilon_per_km": [0.5, 1, 2]}
PAST = {"count": 3, "queries": 10, "past_queries": 15, "mobility": {"kind": "favourites", "places": 4}}
DAYS = {
    "count": 3,
    "days": 1,
    "mobility": {"kind": "markov"},
    "demand": {"kind": "poisson", "per_hour": 2},
}
ODD = {"user": list("aaabbbbbcc"), "time": range(10), "cell": [0, 1, 0, 7, 8, 7, 9, 9, 3, 3]}


def counted(events: pd.DataFrame) -> dict[str, int]:
    """Return what a log says of the work that was done."""
    simulation = ["point", "replication", "lppm"]
    return {
        "points": events["point"].nunique(),
        "users": events["user"].nunique(),
        "simulations": len(events[simulation].drop_duplicates()),
        "queries": len(events[[*simulation, "user", "index"]].drop_duplicates()),
        "rows": len(events),
    }


def promised(cost: Cost) -> dict[str, int]:
    return {name: getattr(cost, name) for name in ("points", "users", "simulations", "queries", "rows")}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="plain"),
        # SP-Exp at three points, PEB-LH and the identity, which the sweep does not touch, at one.
        pytest.param({"lppms": ["SP-Exp", "PEB-LH", "identity"], "sweep": EPSILONS, "replications": 2}, id="sweep"),
        pytest.param({"sweep": {"users.count": [1, 2], "users.queries": [5, 9]}}, id="people swept"),
        pytest.param({"attacks": []}, id="no attack"),
        pytest.param({"sweep": {"attacks": [["sporadic"], ["markov", "markov-trained"]]}}, id="attacks swept"),
        pytest.param({"sweep": {"replications": [1, 3]}, "lppms": ["SP-Exp"]}, id="replications swept"),
        pytest.param({"users": DAYS}, id="days"),
        pytest.param({"users": PAST, "training": {"next": "other_user"}, "sweep": EPSILONS}, id="another user's past"),
    ],
)
def test_the_counts_are_those_of_the_run(changes: dict[str, Any], make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(**changes)
    cost = estimate(scenario)
    events = sim.run(scenario, out=tmp_path / "run", figures=False).events()
    assert promised(cost) == counted(events)
    assert cost.seconds is not None
    assert cost.seconds > 0


def test_uneven_traces_are_counted(make_scenario: MakeScenario, tmp_path: Path) -> None:
    file = tmp_path / "odd.csv"
    pd.DataFrame(ODD).to_csv(file, index=False)
    users = {"mobility": {"kind": "replay", "file": str(file)}}
    cost = estimate(make_scenario(users=users, training={}, replications=2))
    assert promised(cost) == {"points": 1, "users": 3, "simulations": 4, "queries": 40, "rows": 80}


def test_days_of_random_length_are_nearly_right(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(users=DAYS, replications=4, lppms=["identity"])
    cost = estimate(scenario, measure=False)
    found = counted(sim.run(scenario, out=tmp_path / "run", figures=False).events())
    assert cost.queries == pytest.approx(found["queries"], rel=0.3)


def test_nothing_is_timed_unless_asked_for(make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = make_scenario(sweep=EPSILONS)
    timed = estimate(scenario)
    monkeypatch.setattr("sim.probe.run_chunk", None)  # any simulation would fail
    cost = estimate(scenario, measure=False)
    assert cost.seconds is None
    assert promised(cost) == promised(timed)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"lppms": ["SP-Exp", "PEB-LH"], "replications": 3, "sweep": EPSILONS}, id="learning"),
        # Slow training for few queries: it is done once, and must not be counted for every user.
        pytest.param(
            {
                "users": {"count": 40, "queries": 4, "mobility": "favourites"},
                "training": {"others": {"kind": "others", "count": 150, "queries": 200}},
                "lppms": ["SP-Exp"],
            },
            id="training",
        ),
        # The mechanism that takes the time is run at the first point alone.
        pytest.param(
            {
                "users": {"count": 3, "queries": 60, "mobility": "favourites"},
                "lppms": [{"kind": "PEB-LH", "belief": {"solver": "em", "gap": 1e-9, "max_iterations": 400}}, "Exp"],
                "attacks": [],
                "record": {"expected": False},
                "sweep": EPSILONS,
            },
            id="one slow",
        ),
    ],
)
def test_the_time_is_roughly_true(changes: dict[str, Any], make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(**changes)
    sim.run(make_scenario(), out=tmp_path / "first", figures=False)  # imports are not work
    seconds = estimate(scenario).seconds
    began = time.process_time()
    sim.run(scenario, out=tmp_path / "run", figures=False)
    taken = time.process_time() - began
    assert seconds is not None
    assert taken / 10 < seconds < taken * 10


@pytest.mark.parametrize(
    "changes",
    [
        {"lppms": [{"kind": "Dummies", "design": {"dummies": 10**5}}]},
        {"lppms": [{"kind": "PL", "design": {"discretise": False, "quality_budget_km": 1e-9}}]},
        {"attacks": [{"kind": "sporadic", "assumes": {"kind": "dummies", "dummies": 10**5}}]},
    ],
)
def test_what_no_grid_can_make_is_refused_in_words(changes: dict[str, Any], make_scenario: MakeScenario) -> None:
    with pytest.raises(InputError, match=r"(lppms\..*\.design|attacks\.sporadic\.assumes): "):
        estimate(make_scenario(**changes))
