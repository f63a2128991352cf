"""Exact metrics: simulations whose expected metrics every replication would repeat are run once."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from sim.analysis.result import Result
from sim.execution.cost.estimate import estimate
from sim.scenario.models import Scenario
from sim.simulation.progress import Progress
from tests.support import MakeScenario, plan

TRACES = {"ann": [0, 1, 1, 2, 5, 5, 4, 1, 0, 1], "bob": [3, 3, 4, 5, 4, 3, 0]}


def until(half_width_km: float, **more: int) -> dict[str, Any]:
    return {"until_half_width_km": half_width_km, "at_most": 40, **more}


def run(scenario: Scenario, out: Path, progress: Progress | None = None) -> Result:
    return sim.run(scenario, out=out, progress=progress, figures=False, chunk_queries=1)


@pytest.fixture
def recorded(make_scenario: MakeScenario, tmp_path: Path) -> MakeScenario:
    """Return a function that makes a scenario with two recorded users on six cells."""
    rows = [(user, i, cell) for user, cells in TRACES.items() for i, cell in enumerate(cells)]
    pd.DataFrame(rows, columns=["user", "time_s", "cell"]).to_csv(tmp_path / "traces.csv", index=False)

    def make(**changes: Any) -> Scenario:
        settings: dict[str, Any] = {
            "replications": 3,
            "world": {"grid": {"kind": "rectangle", "rows": 2, "cols": 3, "width_km": 3.0, "height_km": 2.0}},
            "users": {"mobility": {"kind": "replay", "file": str(tmp_path / "traces.csv")}, "past_share": 0.3},
            "training": {"own": "own_past"},
            "lppms": ["SP-Exp", "PEB-LH"],
            "attacks": ["sporadic"],
        }
        return make_scenario(**(settings | changes))

    return make


NOT_EXACT: dict[str, dict[str, Any]] = {
    "another attack is a filter": {"attacks": ["sporadic", "markov"]},
    "an attack learns": {"attacks": [{"name": "learns", "belief": "estimated_profile"}]},
    "expected metrics are off": {"record": {"expected": False}},
    "custom attack": {"attacks": [{"kind": "mine:Attack", "name": "mine"}]},
    "custom design": {"lppms": [{"name": "a", "belief": "fixed_profile", "design": "mine:Design"}]},
    "custom belief": {"lppms": [{"name": "a", "belief": "mine:Belief", "design": "identity"}]},
    "custom mobility in training": {"training": {"others": {"kind": "others", "mobility": "mine:Mobility"}}},
    "too many outputs to enumerate": {"lppms": ["Dummies"]},
    "outputs are places": {"lppms": [{"kind": "PL", "design": {"discretise": False}}]},
    "the mechanism is a filter": {"lppms": ["MK-Exp"]},
    "the mechanism learns": {"lppms": ["PEB-LH"]},
    "a budget needs the prior": {
        "lppms": [
            {
                "name": "a",
                "belief": "estimated_profile",
                "design": {"kind": "exponential", "remap": False, "quality_budget_km": 0.5},
            }
        ]
    },
}
EXACT: dict[str, dict[str, Any]] = {
    "a fixed profile": {},
    "a budget": {"lppms": [{"kind": "SP-Exp", "design": {"quality_budget_km": 0.5, "remap": False}}]},
    "trained attacks as well": {"attacks": ["sporadic", "sporadic-trained"]},
    "no attack": {"attacks": []},
    "outputs that are not cells": {"lppms": ["SP-Cloak", "Drop"]},
    "no prior is needed": {
        "lppms": [
            {"name": "a", "belief": "estimated_profile", "design": {"kind": "location_hiding", "remap": False}},
            {"name": "b", "belief": "markov_filter", "design": "identity"},
        ]
    },
}


@pytest.mark.parametrize("name", NOT_EXACT)
def test_inexact_metrics_are_repeated(name: str, recorded: MakeScenario) -> None:
    chunks = plan(recorded(**({"lppms": ["SP-Exp"]} | NOT_EXACT[name])))
    assert [chunk.replications for chunk in chunks] == [range(0, 1), range(1, 2), range(2, 3)]


@pytest.mark.parametrize(
    "users",
    [
        {"mobility": {"shuffle": True}, "queries": 5},
        {"mobility": {"shuffle": True}, "past_share": 0.5},
        {"mobility": {"shuffle": True}, "demand": "periodic"},
        {"demand": "poisson"},
        {"demand": "mine:Demand"},
        {"mobility": {"kind": "favourites"}, "queries": 5},
        {"mobility": {"kind": "mine:Mobility"}, "queries": 5},
    ],
)
def test_random_users_are_repeated(users: dict[str, Any], recorded: MakeScenario, tmp_path: Path) -> None:
    replay = {"kind": "replay", "file": str(tmp_path / "traces.csv")}
    mobility = users.get("mobility", {})
    settings = users | {"mobility": mobility if "kind" in mobility else replay | mobility}
    chunks = plan(recorded(users=settings, lppms=["SP-Exp"], training={}))
    assert [chunk.replications for chunk in chunks] == [range(0, 1), range(1, 2), range(2, 3)]


@pytest.mark.parametrize("replications", [3, until(0.01)])
@pytest.mark.parametrize("name", EXACT)
def test_exact_metrics_are_not_repeated_and_others_are(name: str, replications: Any, recorded: MakeScenario) -> None:
    scenario = recorded(**({"lppms": ["SP-Exp"], "replications": replications} | EXACT[name]))
    lppms = [lppm.name for lppm in scenario.lppms]
    planned = [(chunk.replications, name) for chunk in plan(scenario) for name in chunk.lppms]
    assert planned == [(range(1), name) for name in lppms]
    both = plan(recorded(lppms=[*scenario.lppms, "PEB-LH"], attacks=scenario.attacks, replications=2))
    assert [chunk.lppms for chunk in both] == [(*lppms, "PEB-LH"), ("PEB-LH",)]


def test_periodic_queries_are_exact(recorded: MakeScenario, tmp_path: Path) -> None:
    replay = {"kind": "replay", "file": str(tmp_path / "traces.csv")}
    users = {"mobility": replay, "demand": {"kind": "periodic", "period_s": 2}}
    assert len(plan(recorded(users=users, training={}, lppms=["SP-Exp"]))) == 1


@pytest.mark.parametrize("name", EXACT)
def test_another_seed_gives_the_same_expected_metrics(name: str, recorded: MakeScenario, tmp_path: Path) -> None:
    """Another seed changes only the noise, as another replication would."""
    logs = []
    for seed in range(3):
        scenario = recorded(**({"seed": seed, "lppms": ["SP-Exp"]} | EXACT[name]))
        assert all(scenario.is_exact(lppm) for lppm in scenario.lppms)
        logs.append(run(scenario, tmp_path / str(seed)).per_user())
    for metric in ("expected_quality_loss_km", "expected_adversary_error_km"):
        values = np.array([log[metric] for log in logs], dtype=float)
        np.testing.assert_allclose(values, values[[0] * 3], rtol=0, atol=1e-12)
    if any(lppm.design.kind != "identity" for lppm in scenario.lppms):
        assert len({tuple(log["quality_loss_km"]) for log in logs}) > 1, "sampled metrics differ"


def test_a_whole_trace_in_another_order_is_exact(recorded: MakeScenario, tmp_path: Path) -> None:
    replay = {"kind": "replay", "file": str(tmp_path / "traces.csv"), "shuffle": True}
    logs = []
    for seed in range(3):
        scenario = recorded(seed=seed, lppms=["SP-LH"], users={"mobility": replay}, training={})
        assert len(plan(scenario)) == 1
        logs.append(run(scenario, tmp_path / str(seed)))
    assert len({tuple(log.events()["cell"]) for log in logs}) > 1, "the order differs"
    for metric in ("expected_quality_loss_km", "expected_adversary_error_km"):
        values = np.array([log.per_user()[metric] for log in logs], dtype=float)
        np.testing.assert_allclose(values, values[[0] * 3], rtol=0, atol=1e-12)


def test_exact_metrics_equal_the_sum_over_all_reports(recorded: MakeScenario, tmp_path: Path) -> None:
    """Q-bar and P_AE as the mean over every sequence of reports, weighted with its probability."""
    epsilon, queries = 0.8, 3
    scenario = recorded(
        lppms=[{"kind": "Exp", "design": {"epsilon_per_km": epsilon}}],
        users={"mobility": {"kind": "replay", "file": str(tmp_path / "traces.csv")}, "queries": queries},
        training={},
    )
    metrics = run(scenario, tmp_path / "run").per_user().set_index("user")
    at = [(cell % 3, cell // 3) for cell in range(6)]
    distance = np.array([[abs(a - c) + abs(b - d) for c, d in at] for a, b in at], dtype=float)
    channel = np.exp(-epsilon * distance)
    channel /= channel.sum(axis=1, keepdims=True)
    for user, trace in TRACES.items():
        cells = trace[:queries]
        profile = np.bincount(cells, minlength=6) / queries
        guess = [int(np.argmin(distance.T @ (profile * channel[:, z]))) for z in range(6)]
        loss = error = 0.0
        for reports in itertools.product(range(6), repeat=queries):
            probability = np.prod([channel[x, z] for x, z in zip(cells, reports, strict=True)])
            loss += probability * np.mean([distance[x, z] for x, z in zip(cells, reports, strict=True)])
            error += probability * np.mean([distance[x, guess[z]] for x, z in zip(cells, reports, strict=True)])
        assert metrics.loc[user, "expected_quality_loss_km"] == pytest.approx(loss, abs=1e-12)
        assert metrics.loc[user, "expected_adversary_error_km"] == pytest.approx(error, abs=1e-12)


def test_a_single_user_with_exact_metrics_has_an_interval_of_width_zero(recorded: MakeScenario, tmp_path: Path) -> None:
    replay = {"kind": "replay", "file": str(tmp_path / "traces.csv"), "select": {"users": ["ann"]}}
    scenario = recorded(users={"mobility": replay, "past_share": 0.3}, lppms=["SP-Exp", "PEB-LH"])
    result = run(scenario, tmp_path / "run")
    rows = result.summary().set_index("lppm")
    assert rows["replications"].to_dict() == {"SP-Exp": 1, "PEB-LH": 3}
    exact, learned = rows.T["SP-Exp"], rows.T["PEB-LH"]
    for name in ("expected_quality_loss_km", "expected_adversary_error_km"):
        assert exact[f"{name}_low"] == exact[name] == exact[f"{name}_high"]
        assert learned[f"{name}_low"] < learned[name] < learned[f"{name}_high"]
    assert pd.isna(exact["quality_loss_km_low"]), "one replication gives no interval of the sampled metric"
    assert estimate(scenario).exact == ("SP-Exp",)
