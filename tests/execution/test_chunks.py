"""Chunks of joined replications and shards of a run: results do not depend on how a run is divided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from sim.analysis.event_log import read_shifts
from sim.errors import UserError
from sim.events import Shift
from sim.execution import population_cache
from sim.execution.notes import merge_notes
from sim.execution.population_cache import PopulationCache
from sim.scenario.models import Scenario
from sim.scenario.sweep import points
from sim.simulation.progress import Silent
from sim.storage.event_schema import EVENTS
from tests.support import MakeScenario, done, files, raises_code, recorded_shifts, refused

pytestmark = pytest.mark.usefixtures("plain_kernels", "fork_server")

QUERIES = 3 * 25
"""Number of queries in one simulation of the scenario."""
EPSILON = "lppms.*.design.epsilon_per_km"


def rows(result: sim.Result) -> pd.DataFrame:
    keys = ["point", "lppm", "replication", "user", "index", "attack"]
    return result.events()[EVENTS.names].sort_values(keys, ignore_index=True)


def run(scenario: Scenario, out: Path, *, joined: int, **others: Any) -> sim.Result:
    """Run with chunks of `joined` replications; a point has two LPPMs at most."""
    return sim.run(scenario, out=out, figures=False, chunk_queries=joined * 2 * QUERIES, **others)


@pytest.fixture
def study(make_scenario: MakeScenario) -> Scenario:
    return make_scenario(
        lppms=["SP-Exp", "PEB-LH"], replications=5, sweep={EPSILON: [0.5, 2]}, record={"snapshots": [1, 20]}
    )


def snapshots(result: sim.Result) -> dict[tuple[Any, ...], bytes]:
    profiles: dict[tuple[Any, ...], bytes] = {}
    for part in result.run.parts():
        arrays = result.run.snapshots(part)
        point = int(part.split("-")[0])
        names = (arrays[name] for name in ("lppm", "replication", "user", "index", "profile"))
        profiles |= {(point, *key): profile.tobytes() for *key, profile in zip(*names, strict=True)}
    return profiles


@pytest.mark.parametrize("workers", [1, 2])
def test_joined_replications_have_the_same_rows_snapshots_and_notes(
    workers: int, study: Scenario, tmp_path: Path
) -> None:
    single = run(study, tmp_path / "1", joined=1)
    joined = run(study, tmp_path / "3", joined=3, workers=workers)
    assert [part[5:14] for part in single.run.parts()][:2] == ["0000-0000", "0001-0001"]
    assert [part[5:14] for part in joined.run.parts()] == ["0000-0002", "0003-0004", "0000-0004"]
    pd.testing.assert_frame_equal(rows(single), rows(joined))
    assert snapshots(single) == snapshots(joined)
    assert single.manifest.notes == joined.manifest.notes
    pd.testing.assert_frame_equal(single.summary(), joined.summary())


def test_more_replications_and_other_chunk_sizes_reuse_existing_parts(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    run(make_scenario(replications=4), tmp_path / "grown", joined=3)
    before = files(tmp_path / "grown" / "events")
    assert len(before) == 2
    grown = run(make_scenario(replications=9), tmp_path / "grown", joined=2)
    after = files(tmp_path / "grown" / "events")
    assert before.items() <= after.items()
    assert len(after) == 2 + 3
    whole = run(make_scenario(replications=9), tmp_path / "whole", joined=4)
    pd.testing.assert_frame_equal(rows(grown), rows(whole))
    assert grown.manifest.finished
    assert grown.manifest.parts == grown.run.parts()


def test_fewer_replications_are_refused_in_joined_chunks_too(make_scenario: MakeScenario, tmp_path: Path) -> None:
    run(make_scenario(replications=5), tmp_path, joined=3)
    with raises_code(UserError, "fewer-replications") as error:
        run(make_scenario(replications=4), tmp_path, joined=3)
    assert "5 replications in the directory, 4 requested" in str(error.value)


def test_a_damaged_part_is_replaced_under_the_same_name(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications=4)
    run(scenario, tmp_path, joined=2)
    whole = files(tmp_path)
    part = min((tmp_path / "events").iterdir())
    part.write_bytes(part.read_bytes()[:-100])
    run(scenario, tmp_path, joined=1)
    assert files(tmp_path) == whole


def test_the_stopping_rule_does_not_depend_on_the_chunk_size(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications={"until_half_width_km": 0.3, "at_most": 12})
    single, joined = (run(scenario, tmp_path / str(joined), joined=joined) for joined in (1, 4))
    assert len(joined.run.parts()) < len(single.run.parts())
    pd.testing.assert_frame_equal(rows(single), rows(joined))
    assert single.manifest.repetitions == joined.manifest.repetitions


def test_existing_replications_count_for_the_stopping_rule(make_scenario: MakeScenario, tmp_path: Path) -> None:
    """Eight replications are in several parts. If the first part is missing, only its replications are repeated."""
    eight = make_scenario(replications={"until_half_width_km": 1e-6, "at_least": 8, "at_most": 8})
    run(eight, tmp_path / "run", joined=2)
    whole = run(eight, tmp_path / "run", joined=2)
    first = next(part for part in whole.run.parts() if part.startswith("0000-0000-"))
    (tmp_path / "run" / "events" / f"{first}.parquet").unlink()
    wide = make_scenario(replications={"until_half_width_km": 50, "at_least": 2, "at_most": 8})
    resumed = run(wide, tmp_path / "run", joined=2)
    assert {row.replications for row in resumed.manifest.repetitions} == {8}
    assert resumed.run.parts() == whole.run.parts() == resumed.manifest.parts


def test_simultaneous_runs_with_different_chunk_sizes_are_detected(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications=4)

    class OtherRun(Silent):
        started = False

        def end_chunk(self) -> None:
            if not self.started:
                self.started = True
                for part in (tmp_path / "events").iterdir():  # as if it did not exist when the other run started
                    part.rename(tmp_path / part.name)
                run(scenario, tmp_path, joined=3)
                for part in tmp_path.glob("*.parquet"):
                    part.rename(tmp_path / "events" / part.name)

    with raises_code(UserError, "overlapping-parts"):
        run(scenario, tmp_path, joined=2, progress=OtherRun())


def test_populations_are_cached_while_they_are_small(
    make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    (point,) = points(make_scenario())
    populations = PopulationCache()
    first = populations.population(point, 0)
    assert populations.population(point, 1) is not first
    assert populations.population(point, 0) is first
    monkeypatch.setattr(population_cache, "POPULATIONS_BYTES", 2 * 3 * 20**2 * 8)
    assert [populations.population(point, number) is populations.population(point, number) for number in range(5)] == [
        True
    ] * 5
    assert len(populations._populations) <= 3


def test_notes_of_several_simulations_are_merged() -> None:
    one = {
        "lppm_fallbacks": 1,
        "lppm_alarms": 4,
        "attack_fallbacks": {"a": 1},
        "rows": {"a": 3},
        "worst_gap": None,
        "most": 2,
    }
    two = {
        "lppm_fallbacks": 2,
        "lppm_alarms": 3,
        "attack_fallbacks": {"a": 4},
        "rows": {"a": 2},
        "worst_gap": 0.5,
        "most": 1,
    }
    both = {
        "lppm_fallbacks": 3,
        "lppm_alarms": 7,
        "attack_fallbacks": {"a": 5},
        "rows": {"a": 3},
        "worst_gap": 0.5,
        "most": 2,
    }
    assert merge_notes(one, two) == merge_notes(two, one) == both
    assert merge_notes(one, one)["worst_gap"] is None


def test_alarms_of_change_detection_are_counted(make_scenario: MakeScenario, tmp_path: Path) -> None:
    """One false alarm in two queries is allowed, so that every replication has some."""
    jumpy = {"forget": {"adaptive": True, "recent": 5, "queries_per_false_alarm": 2}}
    lppms = [{"kind": "PEB-Exp", "name": "jumpy", "belief": jumpy}, "SP-Exp"]
    single, both = (
        run(make_scenario(lppms=lppms, replications=n), tmp_path / str(n), joined=1).manifest.notes for n in (1, 2)
    )
    alarms = [{note.lppm: note.lppm_alarms for note in notes} for notes in (single, both)]
    assert 0 < alarms[0]["jumpy"] < alarms[1]["jumpy"]
    assert alarms[0]["SP-Exp"] == alarms[1]["SP-Exp"] == 0


def test_the_log_has_the_shifts_of_all_users(make_scenario: MakeScenario, tmp_path: Path) -> None:
    """Each shift has one row for each mechanism and replication."""

    def shifts_of(user: str, replication: int) -> tuple[Shift, ...]:
        return Shift(user, "move", 5 + replication), Shift(user, "move", 9 + replication, ends=True)

    with recorded_shifts(shifts_of):
        result = run(make_scenario(replications=2), tmp_path, joined=2)
    events = result.events()
    shifts = events[events["shift"].notna()]
    assert shifts.groupby(["lppm", "replication", "event"]).size().tolist() == [3] * 8
    assert shifts[["output", "attack", "estimate", "quality_loss_km"]].isna().all(axis=None)
    queries = events[events["event"] == "query"].drop_duplicates(["lppm", "replication", "user", "index"])
    beside = shifts.merge(queries, on=["lppm", "replication", "user", "index"], suffixes=("", "_of_query"))
    assert len(beside) == len(shifts)
    assert (beside["cell"] == beside["cell_of_query"]).all()
    assert (beside["time_s"] == beside["time_s_of_query"]).all()
    assert read_shifts(result.run)["index"].value_counts().to_dict() == {5: 3, 6: 3, 9: 3, 10: 3}


# --------------------------------------------------------------------------------------------------------- shards


@pytest.mark.parametrize("count", [1, 3, 7])
def test_shards_and_a_final_run_leave_the_bytes_of_one_run(count: int, study: Scenario, tmp_path: Path) -> None:
    run(study, tmp_path / "whole", joined=2)
    for number in np.random.default_rng(count).permutation(count) + 1:
        shared = run(study, tmp_path / "shared", joined=2, shard=(int(number), count))
        assert not shared.manifest.finished
        assert not shared.run.has("summary.csv")
    assert shared.run.parts() == shared.manifest.parts

    class Count(Silent):
        announced: tuple[int, int] | None = None

        def start(self, queries: int, *, chunks: int, skipped: int) -> None:
            self.announced = queries, skipped

    counted = Count()
    run(study, tmp_path / "shared", joined=2, progress=counted)
    assert counted.announced == (0, 5), "nothing is simulated twice"
    assert files(tmp_path / "shared") == files(tmp_path / "whole")


def test_a_shard_of_a_finished_run_changes_nothing(study: Scenario, tmp_path: Path) -> None:
    run(study, tmp_path, joined=2)
    before = files(tmp_path)
    run(study, tmp_path, joined=2, shard=(1, 2))
    assert files(tmp_path) == before


def test_shards_from_the_command_line(small: Path) -> None:
    output = " ".join(done("run", small, "-o", "run", "--shard", "1/2").split())
    assert "shard 1/2" in output
    assert "1 of 2 chunks" in output
    assert "shard 2/2" in done("run", small, "-o", "run", "--shard", "2/2")
    assert json.loads(Path("run/manifest.json").read_text())["finished"] is False
    assert "P_AE" in done("run", small, "-o", "run", "--no-figures")
    assert json.loads(Path("run/manifest.json").read_text())["finished"] is True


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
def test_shards_that_start_at_different_times_have_the_same_plan(
    order: tuple[int, ...], make_scenario: MakeScenario, tmp_path: Path
) -> None:
    """Users of another seed make another number of queries, which must not change the chunks."""
    users = {"count": 2, "days": 2, "mobility": "favourites", "demand": {"kind": "poisson", "per_hour": 1}}
    scenario = make_scenario(users=users, replications=6, lppms=["SP-Exp"], sweep={"seed": [1, 2, 3]})
    options: dict[str, Any] = {"figures": False, "chunk_queries": 200}
    for number in order:
        sim.run(scenario, out=tmp_path / "shared", shard=(number, 3), **options)
    whole = sim.run(scenario, out=tmp_path / "whole", **options)
    assert len(whole.run.parts()) > 3
    assert sim.Result.open(tmp_path / "shared").run.parts() == whole.run.parts()


def test_a_shard_without_work_lists_all_parts_in_the_manifest(make_scenario: MakeScenario, tmp_path: Path) -> None:
    run(make_scenario(replications=4), tmp_path, joined=1)
    run(make_scenario(replications=8), tmp_path, joined=1, shard=(1, 2))
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert (len(manifest["parts"]), manifest["finished"]) == (8, False)


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_an_invalid_shard_is_refused(text: str, small: Path) -> None:
    message = refused("run", small, f"--shard={text}")
    assert text in message
    assert "I/N" in message


def test_a_shard_beyond_the_last_is_refused(study: Scenario, tmp_path: Path) -> None:
    with raises_code(UserError, "invalid-shard") as error:
        run(study, tmp_path, joined=1, shard=(4, 3))
    assert "4/3" in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_stopping_rule_has_no_shards(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications={"until_half_width_km": 0.3, "at_most": 12})
    with raises_code(UserError, "open-replications"):
        run(scenario, tmp_path, joined=1, shard=(1, 2))
    assert not list(tmp_path.iterdir())


def test_a_single_chunk_excludes_workers(study: Scenario, tmp_path: Path) -> None:
    (part, *_) = run(study, tmp_path, joined=1).run.parts()
    with raises_code(UserError, "exclusive-options"):
        run(study, tmp_path, joined=1, chunk=part, workers=2)


def test_the_command_line_refuses_a_run_in_memory(small: Path) -> None:
    assert "memory://x" in refused("run", small, "-o", "memory://x")


def test_status_shows_whether_shards_are_missing(small: Path) -> None:
    done("run", small, "-o", "run", "--shard", "1/2")
    assert "--shard" not in done("status", "run")
    done("run", small, "-o", "run", "--shard", "2/2")
    assert "--shard" in done("status", "run"), "a run without --shard writes the results"
