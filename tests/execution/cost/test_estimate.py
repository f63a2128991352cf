"""Cost estimates agree with the work of the run."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sim
from sim.attack.hindsight import Hindsight
from sim.errors import InputError
from sim.execution.cost import bounded, probe
from sim.execution.cost.estimate import Cost, rows_of_file
from sim.execution.cost.estimate import _unmeasured as unmeasured
from sim.execution.cost.estimate import estimate as estimate_within
from sim.execution.cost.footprint import TRANSITION_BYTES, peak_bytes
from sim.mobility.traces import Life
from sim.scenario.models import Scenario
from sim.simulation.population import Population
from tests.support import ROOT, MakeScenario, numpy_kernels, raises_code

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
    """Return the amount of work in an event log."""
    simulation = ["point", "replication", "lppm"]
    return {
        "points": events["point"].nunique(),
        "users": events["user"].nunique(),
        "simulations": len(events[simulation].drop_duplicates()),
        "queries": len(events[[*simulation, "user", "index"]].drop_duplicates()),
        "rows": len(events),
    }


def estimated(cost: Cost) -> dict[str, int]:
    return {name: getattr(cost, name) for name in ("points", "users", "simulations", "queries", "rows")}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="plain"),
        # SP-Exp at three points; PEB-LH and the identity, which the sweep does not change, at one.
        pytest.param({"lppms": ["SP-Exp", "PEB-LH", "identity"], "sweep": EPSILONS, "replications": 2}, id="sweep"),
        pytest.param({"sweep": {"users.count": [1, 2], "users.queries": [5, 9]}}, id="people swept"),
        pytest.param({"attacks": []}, id="no attack"),
        pytest.param({"sweep": {"attacks": [["sporadic"], ["markov", "markov-trained"]]}}, id="attacks swept"),
        pytest.param({"sweep": {"replications": [1, 3]}, "lppms": ["SP-Exp"]}, id="replications swept"),
        pytest.param({"users": DAYS}, id="days"),
        pytest.param({"users": PAST, "training": {"next": "other_user"}, "sweep": EPSILONS}, id="another user's past"),
        pytest.param(
            {
                "users": PAST,
                "training": {
                    "both": {"kind": "own_and_others", "own": "own", "others": "rest"},
                    "own": "own_past",
                    "rest": "other_users",
                },
                "lppms": ["MK-Exp", "PEB-MK-Exp"],
            },
            id="population chain",
        ),
    ],
)
def test_counts_equal_those_of_the_run(changes: dict[str, Any], make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(**changes)
    cost = estimate(scenario)
    events = sim.run(scenario, out=tmp_path / "run", figures=False).events()
    assert estimated(cost) == counted(events)
    assert cost.seconds is not None
    assert cost.seconds > 0


def test_uneven_traces_are_counted(make_scenario: MakeScenario, tmp_path: Path) -> None:
    file = tmp_path / "odd.csv"
    pd.DataFrame(ODD).to_csv(file, index=False)
    users = {"mobility": {"kind": "replay", "file": str(file)}}
    cost = estimate(make_scenario(users=users, training={}, replications=2))
    assert estimated(cost) == {"points": 1, "users": 3, "simulations": 4, "queries": 40, "rows": 80}


@pytest.mark.parametrize("kind", ["other_user", "other_users"])
def test_users_with_long_pasts_train_on_each_other(
    kind: str, make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.execution.cost.probe.SAMPLED_QUERIES", 20)
    scenario = make_scenario(users=PAST, training={"rest": kind}, lppms=["MK-Exp"])
    assert estimate(scenario).users == 3


def test_memory_grows_with_the_pasts_of_other_users() -> None:
    """The users of a training set of kind other_users have the transitions of all others each."""

    def peak(**training: Any) -> float:
        data = {
            "world": {"grid": "san_francisco"},
            "users": {"mobility": "favourites", "queries": 10, "past_queries": 100},
            "training": training,
            "lppms": [{"kind": "MK-Exp", "training": "all"}],
            "attacks": ["sporadic"],
        }
        scenario = Scenario.model_validate(data)
        return peak_bytes(scenario, users=20, queries=10, past=100, rows=200)

    own, rest = peak(all="own_past"), peak(all="other_users")
    assert rest - own == 20 * TRANSITION_BYTES * (20 * 100 - 10)
    chain = {"kind": "own_and_others", "own": "week", "others": "rest"}
    assert peak(all=chain, week="own_past", rest="other_users") - rest == 20 * TRANSITION_BYTES * 10


def test_a_random_number_of_queries_is_estimated(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(users=DAYS, replications=4, lppms=["identity"])
    cost = estimate(scenario, measure=False)
    events = sim.run(scenario, out=tmp_path / "run", figures=False).events()
    assert cost.queries == pytest.approx(counted(events)["queries"], rel=0.3)


def test_time_is_not_measured_without_measure(make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = make_scenario(sweep=EPSILONS)
    timed = estimate(scenario)
    monkeypatch.setattr("sim.execution.cost.probe.run_chunk", None)  # any simulation would fail
    cost = estimate(scenario, measure=False)
    assert cost.seconds is None
    assert estimated(cost) == estimated(timed)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"lppms": ["SP-Exp", "PEB-LH"], "replications": 3, "sweep": EPSILONS}, id="learning"),
        # Slow training for few queries: it happens once and must not count for every user.
        pytest.param(
            {
                "users": {"count": 40, "queries": 4, "mobility": "favourites"},
                "training": {"others": {"kind": "others", "count": 150, "queries": 200}},
                "lppms": ["SP-Exp"],
            },
            id="training",
        ),
        # The slow mechanism is simulated at the first point only.
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
def test_the_estimate_is_within_a_factor_of_three_of_the_work(
    changes: dict[str, Any], make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work is measured in function calls, not in time; a row of the benchmark compares real time."""
    scenario = make_scenario(**changes)
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    monkeypatch.setattr("sim.execution.cost.probe.time.process_time", lambda: float(calls))
    monkeypatch.setattr("sim.execution.cost.estimate.collect", bounded._collect_here)
    with numpy_kernels():
        sim.run(make_scenario(), out=tmp_path / "first", figures=False)  # imports do not count
        sys.setprofile(count)
        try:
            estimated = estimate(scenario).seconds
            calls = 0
            sim.run(scenario, out=tmp_path / "run", figures=False)
        finally:
            sys.setprofile(None)
    assert estimated is not None
    assert calls / 3 < estimated < calls * 3


@pytest.mark.parametrize(
    "changes",
    [
        {"lppms": [{"kind": "Dummies", "design": {"dummies": 10**5}}]},
        {"lppms": [{"kind": "PL", "design": {"discretise": False, "quality_budget_km": 1e-9}}]},
        {"attacks": [{"kind": "sporadic", "assumes": {"kind": "dummies", "dummies": 10**5}}]},
    ],
)
def test_an_impossible_design_is_refused_with_its_path(changes: dict[str, Any], make_scenario: MakeScenario) -> None:
    with pytest.raises(InputError, match=r"(lppms\..*\.design|attacks\.sporadic\.assumes): "):
        estimate(make_scenario(**changes))


@pytest.fixture
def lived(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Estimate in this process, and return the users whose lives are generated, in order."""
    users: list[str] = []
    live = Population._live

    def counting(self: Population, user: str, *args: Any, **changes: Any) -> Life:
        users.append(user)
        return live(self, user, *args, **changes)

    monkeypatch.setattr(Population, "_live", counting)
    monkeypatch.setattr("sim.execution.cost.estimate.collect", bounded._collect_here)
    return users


CROWDS = [
    {"count": 1_000_000, "queries": 50, "past_queries": 50, "mobility": {"kind": "favourites"}},
    {"count": 1_000_000, "days": 100, "mobility": {"kind": "favourites"}},
    {"count": 100, "queries": 1_000_000, "mobility": {"kind": "markov"}, "demand": {"kind": "poisson"}},
]


@pytest.mark.parametrize("users", CROWDS)
def test_a_crowd_is_estimated_from_a_few(users: dict[str, Any], make_scenario: MakeScenario, lived: list[str]) -> None:
    until = {"until_half_width_km": 0.001, "at_most": 1_000_000}
    cost = estimate(make_scenario(users=users, replications=until, training={}))
    assert cost.users == users["count"]
    assert cost.simulations == 2_000_000
    assert cost.least is not None
    assert cost.least.simulations == 10
    each = users.get("queries", 400)
    assert cost.queries == pytest.approx(2_000_000 * users["count"] * each, rel=0.3)
    assert cost.approximate is ("days" in users)
    assert 0 < len(lived) < 1000
    assert cost.seconds is not None
    assert cost.seconds > 1e6
    assert cost.peak_bytes < 2e9, "a worker has one block of users in memory"
    assert not cost.undivided
    undivided = estimate(make_scenario(users=users, training={}, attacks=["identification"]))
    assert undivided.peak_bytes > max(users["count"] * 1000, cost.peak_bytes)
    assert f"attack identification needs all {users['count']:,} users" in undivided.undivided[0]


def test_a_sampled_count_is_near_the_exact_one(
    make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch, lived: list[str]
) -> None:
    users = {"count": 400, "days": 30, "mobility": {"kind": "favourites", "visits_per_day": 12}}
    scenario = make_scenario(users=users, training={})
    monkeypatch.setattr(probe, "EXACT_QUERIES", 10**9)
    exact = estimate(scenario, measure=False)
    assert (len(set(lived)), exact.approximate) == (400, False)
    monkeypatch.setattr(probe, "EXACT_QUERIES", 0)
    lived.clear()
    sampled = estimate(scenario, measure=False)
    assert len(set(lived)) == probe.SAMPLED_USERS
    assert sampled.approximate
    assert sampled.queries == pytest.approx(exact.queries, rel=0.2)


def test_training_on_a_crowd_is_estimated_too(make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.execution.cost.estimate.collect", bounded._collect_here)
    many = {"others": {"kind": "others", "count": 1_000_000, "queries": 1_000_000}}
    cost = estimate(make_scenario(training=many))
    assert cost.seconds is not None
    assert cost.seconds > 3600


def test_too_many_queries_are_refused(make_scenario: MakeScenario) -> None:
    users = {"count": 2, "days": 30_000, "mobility": {"kind": "markov"}, "demand": {"kind": "periodic", "period_s": 60}}
    with raises_code(InputError, "too-many-queries") as error:
        estimate(make_scenario(users=users, training={}))
    assert re.search(r"4\d,\d{3},\d{3} .* 2,000,000 ", str(error.value))


ENDLESS = """
import dataclasses, json, sys
import sim.execution.cost.probe
from sim.execution.chunks import run_chunk
from sim.execution.cost.estimate import estimate
from sim.scenario.models import Scenario

def endless(chunk, *rest):
    while "PEB-LH" in chunk.lppms:
        pass
    return run_chunk(chunk, *rest)

sim.execution.cost.probe.run_chunk = endless
print(json.dumps(dataclasses.asdict(estimate(Scenario.model_validate_json(sys.stdin.read()), limit_s=2)), default=str))
"""


def test_an_lppm_that_exceeds_the_time_limit_is_listed(make_scenario: MakeScenario) -> None:
    """In a fresh process: this one may have threads of other tests, and then cannot enforce the limit."""
    text = make_scenario().model_dump_json(exclude_unset=True)
    words = [sys.executable, "-c", ENDLESS]
    printed = subprocess.run(words, input=text, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert printed.returncode == 0, printed.stderr
    cost = json.loads(printed.stdout)
    (unmeasured,) = cost["unmeasured"]
    assert unmeasured.endswith("(not within 2 s)")
    assert "PEB-LH" in unmeasured or "world" in unmeasured
    counted = {"points": 1, "users": 3, "simulations": 2, "queries": 150, "rows": 300}
    assert {name: cost[name] for name in counted} == counted


def test_a_shift_without_effect_on_the_sample_is_not_an_error(
    make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = {f"u{number:02d}": 30 if number == 37 else 4 for number in range(60)}
    frame = pd.DataFrame([(user, t, t % 20) for user, n in lengths.items() for t in range(n)], columns=list("utc"))
    frame.columns = pd.Index(["user", "time", "cell"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    users = {"mobility": {"kind": "replay", "file": str(tmp_path / "t.csv")}}
    scenario = make_scenario(users=users, training={}, shifts=[{"kind": "new_places", "at_query": 20}], attacks=[])
    monkeypatch.setattr(probe, "EXACT_QUERIES", 0)
    cost = estimate(scenario, measure=False)
    assert [what.partition(" (")[0] for what in cost.unmeasured] == ["shifts"]
    assert cost.approximate


def test_rows_of_a_file_are_estimated_without_reading_it(tmp_path: Path) -> None:
    frame = pd.DataFrame({"user": ["a"] * 20_000, "time": range(20_000), "cell": [7] * 20_000})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    assert rows_of_file(tmp_path / "t.parquet") == 20_000
    assert rows_of_file(tmp_path / "t.csv") == pytest.approx(20_000, rel=0.1)


def test_settings_that_are_not_measured_equal_the_nearest_ones(make_scenario: MakeScenario, lived: list[str]) -> None:
    sweep = {"users.days": [0.1 + k / 1000 for k in range(400)]}
    cost = estimate(make_scenario(users=DAYS, training={}, sweep=sweep), measure=False)
    assert cost.simulations == 800
    assert cost.approximate
    assert "of 400 settings of the sweep" in cost.unmeasured[0]
    assert cost.queries == pytest.approx(800 * 3 * 2 * 24 * 0.3, rel=0.3)
    assert len(lived) <= 3 * 4 * 50


@pytest.mark.parametrize("queries", [0, 1, 2, 5, 6, 50])
@pytest.mark.parametrize("lags", [[], [1], [1, 5], [1, 1, 7]])
@pytest.mark.parametrize("final", [True, False])
def test_revised_estimates_are_counted(lags: list[int], final: bool, queries: int) -> None:
    pairs = {(at, lag) for at in range(1, queries + 1) for lag in lags if at - lag >= 1}
    pairs |= {(queries, lag) for lag in range(1, queries)} if final else set()
    assert Hindsight(lags=lags, final=final).guesses(queries) == len(pairs)


def test_the_time_limit_in_a_note_has_one_decimal() -> None:
    for limit_s, shown in ((1.14662, "1.1"), (60.0, "60"), (2.5, "2.5")):
        (note,) = unmeasured(bounded.Collected(ending="time"), {}, {}, {}, (), limit_s)
        assert note == f"world, users and training data (not within {shown} s)"


def test_the_size_of_the_log_is_that_of_its_rows(make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = {"count": 2_000, "queries": 20, "mobility": {"kind": "favourites"}}
    for record in ("queries", "summary"):
        parts: dict[str, Any] = {"world": {"grid": "san_francisco"}, "lppms": ["SP-Exp"], "attacks": ["sporadic"]}
        scenario = make_scenario(users=users, record=record, replications=1, **parts)
        run = tmp_path / record
        sim.run(scenario, out=run, figures=False)
        written = sum(path.stat().st_size for path in run.glob("events/*.parquet"))
        assert estimate(scenario, measure=False).log_bytes == pytest.approx(written, rel=0.2), record


def test_the_time_of_further_queries_follows_the_trend() -> None:
    """The time of query r is r: a user with q queries takes q (q + 1) / 2."""
    stamps_s = [r * (r + 1) / 2 for r in range(1, 102)]
    next_s, growth_s = probe.trend(stamps_s, learns=True)
    assert (next_s, growth_s) == pytest.approx((102.0, 1.0))
    rate = probe.Rate("PEB", 0.0, stamps_s[-1], 101, True, next_s=next_s, growth_s=growth_s)
    assert rate.seconds(600) == pytest.approx(600 * 601 / 2, rel=0.01)
    assert rate.seconds(50) == pytest.approx(stamps_s[-1] * 50 / 101)
    limited = dataclasses.replace(rate, grows_until=200)
    assert limited.seconds(600) < limited.seconds(200) + 400 * 202
    assert probe.trend(stamps_s, learns=False)[1] == 0.0
    assert probe.trend([1.0], learns=True) == (None, 0.0)
