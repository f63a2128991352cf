"""Stopping rule: simulations are repeated until the confidence intervals of their metrics are narrow."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scipy import stats

import sim
from sim.analysis.result import Result
from sim.errors import UserError
from sim.execution.cost.estimate import estimate
from sim.execution.plan import Plan, next_look, tasks
from sim.scenario.models import Scenario
from sim.scenario.sweep import points
from sim.simulation.progress import Progress
from tests.support import MakeScenario, files, raises_code

EPSILON = "lppms.*.design.epsilon_per_km"


FEW: dict[str, Any] = {
    "users": {"count": 2, "queries": 6, "mobility": {"kind": "favourites", "places": 4}},
    "lppms": ["SP-Exp", "SP-LH"],
    "attacks": ["sporadic"],
}
"""Quick to run, with wide intervals."""
QUERIES = 2 * 6
WIDE, NARROW = 0.6, 0.3


def until(half_width_km: float, **more: int) -> dict[str, Any]:
    return {"until_half_width_km": half_width_km, "at_most": 40, **more}


def run(scenario: Scenario, out: Path, progress: Progress | None = None) -> Result:
    return sim.run(scenario, out=out, progress=progress, figures=False, chunk_queries=1)


def counts(result: Result) -> dict[tuple[int, str], int]:
    """Return the number of replications in the log, by point and LPPM."""
    times = result.events().groupby(["point", "lppm"])["replication"].nunique().reset_index()
    return {(int(point), str(lppm)): int(count) for point, lppm, count in times.itertuples(index=False)}


def half_widths(events: pd.DataFrame, replications: int) -> list[float]:
    """Return the half-width of the interval of Q-bar and of each attack's P_AE after a number of replications."""
    widths = []
    for _, rows in events[events["replication"] < replications].groupby("attack"):
        for metric in ("expected_quality_loss_km", "expected_adversary_error_km"):
            of_user = rows.groupby(["replication", "user"])[metric].mean()
            means = of_user.groupby("replication").mean()
            widths.append(stats.t.ppf(0.975, len(means) - 1) * stats.sem(means))
    return widths


def test_each_lppm_is_repeated_until_all_its_intervals_are_narrow(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications=until(0.15), lppms=["SP-Exp", "PEB-LH", "identity"])
    result = run(scenario, tmp_path / "run")
    replications, all_events = counts(result), result.events()
    assert len(set(replications.values())) > 1, "LPPMs stop independently"
    assert 5 < max(replications.values()) < 40
    assert replications[0, "identity"] == 5, "identity has no randomness"
    for (_, lppm), times in replications.items():
        events = all_events[all_events["lppm"] == lppm]
        looks = [5]
        while looks[-1] < times:
            looks.append(next_look(looks[-1], 40))
        assert looks[-1] == times
        assert max(half_widths(events, times)) <= 0.15
        assert all(max(half_widths(events, look)) > 0.15 for look in looks[:-1])
    assert {(row.point, row.lppm): row.replications for row in result.manifest.repetitions} == replications
    assert result.manifest.parts == result.run.parts()
    assert result.summary().groupby("lppm")["replications"].max().to_dict() == {
        lppm: n for (_, lppm), n in replications.items()
    }


def test_at_least_and_at_most_bound_the_number_of_replications(make_scenario: MakeScenario, tmp_path: Path) -> None:
    never = run(make_scenario(replications=until(1e-6, at_most=7), lppms=["SP-Exp"]), tmp_path / "never")
    assert counts(never) == {(0, "SP-Exp"): 7}
    (repetition,) = never.manifest.repetitions
    assert repetition.half_widths_km.keys() == {"Q-bar", "P_AE sporadic", "P_AE markov"}
    assert sorted(repetition.half_widths_km.values()) == pytest.approx(sorted(set(half_widths(never.events(), 7))))
    first = run(make_scenario(replications=until(100, at_least=3), lppms=["SP-Exp"]), tmp_path / "once")
    assert counts(first) == {(0, "SP-Exp"): 3}


def test_sampled_metrics_count_without_expected_ones(make_scenario: MakeScenario, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"lppms": ["SP-Exp"], "attacks": []}
    sampled = run(make_scenario(replications=until(0.15), record={"expected": False}, **changes), tmp_path / "sampled")
    (repetition,) = sampled.manifest.repetitions
    means = sampled.per_user().groupby("replication")["quality_loss_km"].mean()
    half = stats.t.ppf(0.975, len(means) - 1) * stats.sem(means)
    assert repetition.half_widths_km == {"Q-bar": pytest.approx(half)}
    assert half <= 0.15


def test_the_simulations_equal_those_of_a_fixed_number(make_scenario: MakeScenario, tmp_path: Path) -> None:
    sought = run(make_scenario(**FEW, replications=until(NARROW)), tmp_path / "sought").events()
    fixed = run(make_scenario(**FEW, replications=40), tmp_path / "fixed").events()
    keys = ["lppm", "replication", "user", "index", "attack"]
    same = fixed.merge(sought[keys], on=keys)
    pd.testing.assert_frame_equal(
        same.sort_values(keys, ignore_index=True), sought.sort_values(keys, ignore_index=True)[same.columns]
    )


class Stop(BaseException):
    """Stands for a kill of the run."""


class StopAfter:
    """Progress callback that stops a run after a number of queries, and counts those that are announced."""

    def __init__(self, queries: float = float("inf")) -> None:
        self.left = queries
        self.announced: list[tuple[int, int]] = []
        self.done = 0

    def start(self, queries: int, *, chunks: int, skipped: int) -> None:
        self.announced.append((queries, skipped))

    def advance(self, queries: int) -> None:
        self.done += queries
        self.left -= queries
        if self.left < 0:
            raise Stop

    def end_chunk(self) -> None: ...


def test_a_run_stopped_at_any_time_resumes_to_the_same_bytes(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(**FEW, replications=until(NARROW), sweep={EPSILON: [0.5, 2]})
    whole = StopAfter()
    run(scenario, tmp_path / "whole", whole)
    assert whole.done == sum(queries for queries, _ in whole.announced)
    assert len(whole.announced) > 2, "several rounds"
    for share in (0.1, 0.5, 0.95):
        out = tmp_path / f"stopped at {share}"
        with pytest.raises(Stop):
            run(scenario, out, StopAfter(share * whole.done))
        unfinished = json.loads((out / "manifest.json").read_text())
        assert not unfinished["finished"]
        assert set(Result.open(out).run.parts()) <= set(unfinished["parts"])
        resumed = StopAfter()
        run(scenario, out, resumed)
        assert resumed.announced[0][1] > 0
        assert resumed.done < whole.done
        assert files(out) == files(tmp_path / "whole")


def test_a_damaged_part_is_simulated_again(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(**FEW, replications=until(WIDE))
    parts = run(scenario, tmp_path / "whole").run.parts()
    for part in (parts[0], parts[-1]):
        shutil.copytree(tmp_path / "whole", tmp_path / part)
        torn = tmp_path / part / "events" / f"{part}.parquet"
        torn.write_bytes(torn.read_bytes()[:400])
        run(scenario, tmp_path / part)
        assert files(tmp_path / part) == files(tmp_path / "whole")


def test_narrower_intervals_and_a_higher_maximum_resume_the_run(make_scenario: MakeScenario, tmp_path: Path) -> None:
    narrow = make_scenario(**FEW, replications=until(NARROW))
    run(narrow, tmp_path / "narrow")
    for name, first in {"wide": until(WIDE), "low": until(NARROW, at_most=6), "fewer": until(WIDE, at_least=3)}.items():
        before = counts(run(make_scenario(**FEW, replications=first), tmp_path / name))
        again = StopAfter()
        after = counts(run(narrow, tmp_path / name, again))
        assert sum(before.values()) < sum(after.values())
        assert again.done == (sum(after.values()) - sum(before.values())) * QUERIES
        assert files(tmp_path / name) == files(tmp_path / "narrow")


@pytest.mark.parametrize(
    ("replications", "code", "pattern"),
    [
        (until(NARROW, at_most=6), "fewer-replications", r"\d+ replications in the directory, 6 requested"),
        (7, "replications-differ", r"`replications: until_half_width_km: 0\.3`, .* `7`"),
    ],
)
def test_fewer_or_other_replications_are_refused(
    replications: Any, code: str, pattern: str, make_scenario: MakeScenario, tmp_path: Path
) -> None:
    run(make_scenario(**FEW, replications=until(NARROW)), tmp_path / "run")
    before = files(tmp_path / "run")
    with raises_code(UserError, code) as error:
        run(make_scenario(**FEW, replications=replications), tmp_path / "run")
    assert re.search(pattern, str(error.value))
    assert files(tmp_path / "run") == before


def test_wider_intervals_reuse_existing_parts(make_scenario: MakeScenario, tmp_path: Path) -> None:
    before = counts(run(make_scenario(**FEW, replications=until(NARROW)), tmp_path))
    again = StopAfter()
    resumed = run(make_scenario(**FEW, replications=until(WIDE)), tmp_path, again)
    assert counts(resumed) == before
    assert resumed.manifest.parts == resumed.run.parts(), "the manifest lists all parts"
    assert {(row.point, row.lppm): row.replications for row in resumed.manifest.repetitions} == before
    assert again.done == 0
    # Another start evaluates the rule at other numbers: LPPMs with more replications continue to the next number.
    after = counts(run(make_scenario(**FEW, replications=until(WIDE, at_least=9)), tmp_path, again))
    assert all(before[key] <= after[key] for key in before)


def test_check_reports_the_minimum_and_the_maximum(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications=until(0.2, at_most=30), sweep={EPSILON: [0.5, 2]})
    cost = estimate(scenario)
    assert cost.least is not None
    # SP-Exp at two points, PEB-LH at one.
    assert (cost.least.simulations, cost.simulations) == (3 * 5, 3 * 30)
    assert (cost.least.queries, cost.queries) == (3 * 5 * 75, 3 * 30 * 75)
    assert cost.least.queries <= sum(counts(run(scenario, tmp_path)).values()) * 75 <= cost.queries
    assert cost.seconds is not None
    assert cost.least.seconds is not None
    assert cost.least.seconds < cost.seconds
    assert estimate(make_scenario(replications=4)).least is None


def test_evaluations_grow_and_end_at_the_maximum() -> None:
    looks = [2]
    while looks[-1] < 1000:
        looks.append(next_look(looks[-1], 1000))
    assert looks[-1] == 1000
    assert all(0 < b - a <= max(1, a / 4) for a, b in itertools.pairwise(looks))


def test_with_a_stopping_rule_each_lppm_has_separate_chunks(make_scenario: MakeScenario) -> None:
    work = tasks(points(make_scenario(replications=until(0.2))))
    few = {chunk.id for chunk in Plan(work).chunks({task.key: 6 for task in work})}
    uneven = {chunk.id for chunk in Plan(work).chunks({work[0].key: 5, work[1].key: 9})}
    assert len(few) == 12
    assert len(uneven) == 14
    assert len(few & uneven) == 5 + 6, "they do not depend on the other LPPM"
