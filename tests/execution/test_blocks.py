"""Blocks of users: results do not depend on how the users of a simulation are divided."""

from __future__ import annotations

import operator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from sim.analysis.replications import replication_half_widths, replication_means
from sim.analysis.summary import per_user
from sim.execution import chunk_size
from sim.execution.blocks import Area, ChunkSize, overlapping, uncovered
from sim.execution.chunk_size import CHUNK_QUERIES
from sim.execution.chunks import run_chunk
from sim.execution.inputs import permitted
from sim.execution.plan import Plan, tasks
from sim.execution.population_cache import PopulationCache
from sim.execution.study import Study
from sim.mobility.statistics import count
from sim.mobility.traces import Trace, live
from sim.scenario.models import Scenario
from sim.scenario.sweep import points
from sim.simulation.population import Population
from sim.simulation.progress import Silent
from sim.storage.errors import RequestError
from sim.storage.event_schema import EVENTS
from sim.storage.part_ids import users_in
from sim.storage.sampling import in_sample, snapshot_users
from tests.support import MakeScenario, raises_code

pytestmark = pytest.mark.usefixtures("plain_kernels", "fork_server")

USERS, QUERIES = 7, 20
FAVOURITES = {"count": USERS, "queries": QUERIES, "past_queries": 12, "mobility": {"kind": "favourites", "places": 4}}
REPLAY = {"count": USERS, "past_share": 0.3, "mobility": {"kind": "replay", "file": "traces.csv"}}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow blocks of one user."""
    monkeypatch.setattr(chunk_size, "BLOCK_QUERIES", 1)


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Write a trace file of users with unequal numbers of visits, and return its folder."""
    rng = np.random.default_rng(5)
    frames = [
        pd.DataFrame({"user": f"u{number}", "time_s": np.sort(rng.integers(0, 10**6, visits))}).assign(
            cell=rng.integers(0, 20, visits)
        )
        for number, visits in enumerate(rng.integers(10, 40, USERS))
    ]
    pd.concat(frames).to_csv(tmp_path / "traces.csv", index=False)
    return tmp_path


def rows(result: sim.Result) -> pd.DataFrame:
    keys = ["point", "lppm", "replication", "user", "index", "attack", "estimated_index", "event", "shift"]
    return result.events()[EVENTS.names].sort_values(keys, ignore_index=True)


def snapshots(result: sim.Result) -> dict[tuple[Any, ...], bytes]:
    profiles: dict[tuple[Any, ...], bytes] = {}
    for part in result.run.parts():
        arrays = result.run.snapshots(part)
        keys = (arrays[name] for name in ("lppm", "replication", "user", "index"))
        values = [arrays[name] for name in arrays if name == "profile" or name.startswith("own_")]
        profiles |= {
            (part.split("-")[0], *key): b"".join(value[place].tobytes() for value in values)
            for place, key in enumerate(zip(*keys, strict=True))
        }
    return profiles


def blocks_of(result: sim.Result) -> set[range | None]:
    return {users_in(part) for part in result.run.parts()}


SCENARIOS: dict[str, dict[str, Any]] = {
    "several LPPMs and attacks": {
        "lppms": ["SP-Exp", "PEB-LH", "MK-Exp"],
        "attacks": ["sporadic", "markov", "face-value"],
        "record": {"snapshots": [1, 15], "posterior": True},
        "replications": 2,
        "sweep": {"lppms.*.design.epsilon_per_km": [0.5, 2]},
    },
    "summary": {"record": {"log": "summary", "window": 6}},
    "own past": {"training": {"own": "own_past"}},
    "other user": {"training": {"next": {"kind": "other_user", "queries": 5}}},
    "population chain": {
        "training": {
            "both": {"kind": "own_and_others", "own": "own", "others": "rest"},
            "own": {"kind": "own_past", "queries": 5},
            "rest": {"kind": "other_users"},
        },
        "lppms": ["MK-Exp", "PEB-MK-Exp"],
        "attacks": ["markov", {"kind": "path-trained", "name": "path"}],
    },
    "hindsight": {"attacks": [{"kind": "markov", "hindsight": {"lags": [2], "final": True}}]},
    "adopted behaviour": {"shifts": [{"kind": "adopt", "at_query": 6}], "training": {"next": "other_user"}},
    "shift of a share": {
        "shifts": [
            {"kind": "relocate", "at_query": 8, "share": 0.3, "over_queries": 4},
            {"kind": "rate", "at_query": 10, "users": ["user-004"], "factor": 3},
            {"kind": "adopt", "name": "imitated", "at_query": 12, "of": "user-002", "what": "trace", "share": 0.4},
        ]
    },
    "timed demand": {
        "users": {"count": USERS, "days": 4, "mobility": "favourites", "demand": {"kind": "poisson", "per_hour": 0.3}}
    },
}


def divided(scenario: Scenario, out: Path, users: int, **options: Any) -> sim.Result:
    """Run a scenario in blocks of about this number of users."""
    queries = PopulationCache().queries(points(scenario)[0])
    lppms = 1 if not isinstance(scenario.replications, int) else len(scenario.lppms)
    least = max(queries * lppms * users // USERS, 1)
    return sim.run(scenario, out=out, figures=False, chunk_queries=least, **options)


@pytest.mark.parametrize("name", SCENARIOS)
def test_results_do_not_depend_on_blocks(name: str, make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(**{"users": FAVOURITES} | SCENARIOS[name])
    whole, single, three = (divided(scenario, tmp_path / str(users), users) for users in (USERS, 1, 3))
    assert blocks_of(whole) == {None}
    assert {block for block in blocks_of(single) if block is not None and len(block) == 1}
    assert {len(block) for block in blocks_of(three) if block is not None} & {3, 4}
    for parts in (single, three):
        pd.testing.assert_frame_equal(rows(whole), rows(parts), check_exact=True)
        assert snapshots(whole) == snapshots(parts)
        assert whole.manifest.notes == parts.manifest.notes


@pytest.mark.parametrize("shuffle", [False, True])
def test_replayed_users_do_not_depend_on_blocks(
    shuffle: bool, make_scenario: MakeScenario, traces: Path, tmp_path: Path
) -> None:
    mobility = REPLAY["mobility"] | {"shuffle": shuffle}  # type: ignore[operator]
    users = REPLAY | {"mobility": mobility}
    scenario = make_scenario(users=users, training={"next": "other_user"}, replications=2).at(traces)
    whole, single = (divided(scenario, tmp_path / str(count), count) for count in (USERS, 1))
    assert {len(block) for block in blocks_of(single) if block is not None} <= {1, 2}
    pd.testing.assert_frame_equal(rows(whole), rows(single), check_exact=True)


@pytest.mark.parametrize("options", [{"workers": 2}, {"shard": None}])
def test_blocks_are_resumed_and_do_not_depend_on_workers(
    options: dict[str, Any], make_scenario: MakeScenario, tmp_path: Path
) -> None:
    scenario = make_scenario(users=FAVOURITES, replications=2)
    whole = divided(scenario, tmp_path / "whole", 1)
    parts = whole.run.parts()
    for part in parts[1::2]:
        (tmp_path / "whole" / "events" / f"{part}.parquet").unlink()
    again = divided(scenario, tmp_path / "whole", 3, **options)
    assert {*parts[::2]} <= {*again.run.parts()}
    assert len(again.run.parts()) == len(parts), "gaps of one user are filled by one user"
    fresh = divided(scenario, tmp_path / "fresh", USERS)
    pd.testing.assert_frame_equal(rows(fresh), rows(again), check_exact=True)


def test_shards_divide_blocks(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(users=FAVOURITES)
    counts = [len(divided(scenario, tmp_path / "run", 1, shard=(number, 2)).run.parts()) for number in (1, 2)]
    assert counts == [3, 7]
    whole = divided(scenario, tmp_path / "whole", USERS)
    pd.testing.assert_frame_equal(rows(whole), rows(divided(scenario, tmp_path / "run", 1)), check_exact=True)


def test_the_stopping_rule_does_not_depend_on_blocks(make_scenario: MakeScenario, tmp_path: Path) -> None:
    until = {"until_half_width_km": 0.06, "at_least": 2, "at_most": 30}
    scenario = make_scenario(users=FAVOURITES, replications=until)
    whole, single = (divided(scenario, tmp_path / str(users), users) for users in (USERS, 1))
    assert None not in blocks_of(single)
    assert whole.manifest.repetitions == single.manifest.repetitions
    assert any(2 < entry.replications < 30 for entry in whole.manifest.repetitions)
    expected = replication_half_widths(replication_means(per_user(whole.run)))
    for entry in whole.manifest.repetitions:
        row = expected[(expected["lppm"] == entry.lppm) & (expected["attack"] == "markov")].iloc[0]
        assert entry.half_widths_km["P_AE markov"] == pytest.approx(row["adversary_error_km"], rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"names": "hidden", "attacks": ["identification"]}, "`names: hidden`"),
        ({"attacks": ["identification", "sporadic"]}, "attack identification"),
    ],
)
def test_scenarios_that_need_everybody_have_one_block(
    changes: dict[str, Any], reason: str, make_scenario: MakeScenario, tmp_path: Path
) -> None:
    scenario = make_scenario(**{"users": FAVOURITES} | changes)
    assert scenario.everybody_needed_by == reason
    assert blocks_of(divided(scenario, tmp_path, 1)) == {None}


class Everyone:
    """Custom attack that does not declare that it separates users."""

    def __init__(self, **_: Any) -> None:
        pass

    def observe(self, report: Any) -> Any:
        """Not called."""


class Separate(Everyone):
    """Custom attack that separates users."""

    separates_users = True


@pytest.mark.parametrize(("name", "needed"), [("Everyone", True), ("Separate", False)])
def test_custom_attacks_declare_that_they_separate_users(name: str, needed: bool, make_scenario: MakeScenario) -> None:
    attack = {"kind": f"tests.execution.test_blocks:{name}", "name": "own"}
    scenario = permitted(make_scenario(attacks=[attack]), allow_code=True)
    assert scenario.attacks[0].needs_everybody is needed


def test_a_block_generates_only_the_lives_that_it_needs(
    make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived: list[str] = []

    def recorded(mobility: Any, demand: Any, user: str, **limits: Any) -> Any:
        lived.append(user)
        return live(mobility, demand, user, **limits)

    monkeypatch.setattr("sim.simulation.population.live", recorded)
    scenario = make_scenario(users=FAVOURITES | {"count": 1_000_000}, training={"next": "other_user"})
    cache = PopulationCache()
    (point,) = points(scenario)
    assert (cache.users(point), cache.queries(point)) == (1_000_000, 1_000_000 * QUERIES)
    assert lived == []
    population = Population(cache.setting(point), 0, range(999_998, 1_000_000))
    assert list(population.lives) == ["user-999999", "user-1000000"]
    population.knowledge("next")("user-1000000")
    assert lived == ["user-999999", "user-1000000", "user-001"]


def test_queries_of_many_users_are_estimated_from_a_sample(make_scenario: MakeScenario) -> None:
    users = {"count": 500, "days": 2, "mobility": "favourites"}
    population = Population(PopulationCache().setting(points(make_scenario(users=users))[0]), 0)
    exact = sum(map(len, population.traces))
    assert population.count_queries() == pytest.approx(exact, rel=0.1)
    assert population.count_queries() == Population(population.setting, 0).count_queries()


def test_an_interrupt_loses_only_the_current_block(make_scenario: MakeScenario, tmp_path: Path) -> None:
    class Stop(Silent):
        chunks = 0

        def end_chunk(self) -> None:
            Stop.chunks += 1

        def advance(self, _queries: int) -> None:
            if Stop.chunks == 3:
                raise KeyboardInterrupt

    scenario = make_scenario(users=FAVOURITES)
    with pytest.raises(KeyboardInterrupt) as error:
        divided(scenario, tmp_path, 1, progress=Stop())
    assert "3 of 7 chunks" in str(error.value)
    assert "about 1 simulated queries are lost" in str(error.value)


def test_a_failed_block_is_named_and_repeated_alone(make_scenario: MakeScenario, tmp_path: Path) -> None:
    from sim.execution.failures import describe_failure
    from sim.execution.pool import Failure
    from sim.execution.study import Study
    from sim.storage.status import failed_where

    result = divided(make_scenario(users=FAVOURITES), tmp_path, 3)
    study = Study.of(make_scenario(users=FAVOURITES), chunk_queries=USERS * QUERIES)
    chunk = study.plan.chunks(existing=result.run.parts())[1]
    failure = describe_failure(
        Failure(chunk, "ValueError: no", "", 0, "SP-Exp"), result.run, study.scenario, study.plan
    )
    assert failed_where(failure) == "point 0, replication 0, users 4 to 7, SP-Exp"
    assert chunk.id in failure["command"]


def test_the_shipped_city_runs_in_blocks_and_resumes(tmp_path: Path) -> None:
    settings = {"users.count": 1_100, "training.others.count": 5}
    city = sim.load("example:city").with_settings(settings)
    first = sim.run(city, out=tmp_path, figures=False)
    assert blocks_of(first) == {range(0, 550), range(550, 1_100)}
    (tmp_path / "events" / f"{first.run.parts()[1]}.parquet").unlink()
    again = sim.run(city, out=tmp_path, figures=False)
    assert len(again.events()) == 4 * 1_100
    assert len(again.over_time()) == 4, "a time series needs several points"
    pd.testing.assert_frame_equal(first.summary(), again.summary())


# ------------------------------------------------------------------------------------------------------- training data


@pytest.fixture
def crowd(make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch) -> Scenario:
    """Return a scenario with a training set that is counted in three blocks."""
    for module in ("sim.execution.training", "sim.simulation.setting"):
        monkeypatch.setattr(f"{module}.PEOPLE", 3)
    return make_scenario(users=FAVOURITES, lppms=["MK-Exp"], training={"others": {"kind": "others", "count": 8}})


@pytest.mark.parametrize("workers", [1, 2])
def test_large_training_sets_are_counted_once(
    workers: int, crowd: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = divided(crowd, tmp_path / "run", 3, workers=workers)
    (file,) = (tmp_path / "run" / "training").iterdir()
    monkeypatch.undo()
    small = divided(crowd, tmp_path / "small", USERS)
    assert not (tmp_path / "small" / "training").exists()
    pd.testing.assert_frame_equal(rows(whole), rows(small), check_exact=True)
    assert file.suffix == ".npz"


def test_large_parts_of_combined_training_sets_are_counted_once(
    crowd: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = {
        "both": {"kind": "own_and_others", "own": "own", "others": "crowd"},
        "own": "own_past",
        "crowd": {"kind": "others", "count": 8},
    }
    combined = crowd.with_settings({"training": sets})
    whole = divided(combined, tmp_path / "run", 3)
    assert len(list((tmp_path / "run" / "training").iterdir())) == 1
    monkeypatch.undo()
    small = divided(combined, tmp_path / "small", USERS)
    assert not (tmp_path / "small" / "training").exists()
    pd.testing.assert_frame_equal(rows(whole), rows(small), check_exact=True)


def test_corrupt_counts_are_computed_again(crowd: Scenario, tmp_path: Path) -> None:
    whole = divided(crowd, tmp_path / "run", 3)
    expected = rows(whole)
    (file,) = (tmp_path / "run" / "training").iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    for part in whole.run.parts():
        (tmp_path / "run" / "events" / f"{part}.parquet").unlink()
    pd.testing.assert_frame_equal(expected, rows(divided(crowd, tmp_path / "run", 3)), check_exact=True)
    assert file.read_bytes() == content


def test_counts_of_blocks_add_up() -> None:
    rng = np.random.default_rng(3)
    traces = [Trace(f"u{k}", np.arange(30) * 9_000, rng.integers(0, 6, 30)) for k in range(7)]
    counted = [count(traces[k : k + 2], n_cells=6, restart_s=86_400) for k in range(0, 7, 2)]
    whole, added = count(traces, n_cells=6, restart_s=86_400), reduce(operator.add, counted)
    for name in ("visits", "pairs", "counts"):
        assert np.array_equal(getattr(whole, name), getattr(added, name))


# ---------------------------------------------------------------------------------------------------------------- plan


def blocks_in(chunks: Any) -> list[tuple[range, range | None]]:
    return [(chunk.replications, chunk.users) for chunk in chunks]


def test_areas_are_covered_once() -> None:
    """Random divisions in two dimensions, with random parts finished."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        users, replications = int(rng.integers(1, 9)), int(rng.integers(1, 6))
        taken: list[Area] = []
        for _ in range(4):
            size = ChunkSize(int(rng.integers(1, 4)), int(rng.integers(1, users + 1)), users)
            areas = [area for gap in uncovered(range(replications), taken, users) for area in size.cut(gap)]
            covered = np.zeros((replications, users), dtype=int)
            for area in [*taken, *areas]:
                covered[area.replications.start : area.replications.stop, _slice(area, users)] += 1
            assert (covered == 1).all()
            assert overlapping([*taken, *areas]) is None
            taken += [area for area in areas if rng.random() < 0.4]


def _slice(area: Area, users: int) -> slice:
    return slice(0, users) if area.users is None else slice(area.users.start, area.users.stop)


def divide(scenario: Scenario, blocks: int, users: int = 7) -> Plan:
    return Plan(tasks(points(scenario)), lambda _point, _lppms: ChunkSize(1, blocks, users))


def test_chunks_of_blocks_are_found_by_their_ids_and_fill_gaps(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(replications=2)
    plan = divide(scenario, 3)
    chunks = plan.chunks()
    assert blocks_in(chunks[:3]) == [(range(1), range(0, 2)), (range(1), range(2, 4)), (range(1), range(4, 7))]
    assert all(plan.named(chunk.id) == chunk for chunk in chunks)
    assert plan.named(divide(scenario, 3, 8).chunks()[2].id) is None, "there are only seven users"
    kept = [chunks[1].id]
    other = divide(scenario, 2).chunks(existing=kept)
    assert blocks_in(other[:3]) == [(range(1), range(0, 2)), (range(1), range(2, 4)), (range(1), range(4, 7))]
    whole = divide(scenario, 1).chunks()
    assert blocks_in(divide(scenario, 3).chunks(existing=[whole[0].id]))[:2] == [
        (range(1), None),
        (range(1, 2), range(0, 2)),
    ]
    with raises_code(RequestError, "overlapping-parts"):
        plan.chunks(existing=[whole[0].id, chunks[1].id])


def test_points_of_a_setting_share_the_people_of_a_block(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(sweep={"lppms.*.design.epsilon_per_km": [1, 2]}, lppms=["SP-Exp"])
    chunks = divide(scenario, 2).chunks()
    assert [(chunk.users, chunk.point.index) for chunk in chunks] == [
        (range(0, 3), 0),
        (range(0, 3), 1),
        (range(3, 7), 0),
        (range(3, 7), 1),
    ]
    assert chunks[0].people == chunks[1].people != chunks[2].people


def test_the_size_depends_on_cells_and_learning(make_scenario: MakeScenario) -> None:
    grid = {"kind": "rectangle", "rows": 100, "cols": 100, "width_km": 10, "height_km": 10}
    memoryless = {"lppms": ["SP-Exp"], "attacks": ["sporadic"]}
    assert chunk_size.queries_in_chunk(make_scenario(), ["PEB-LH"]) == CHUNK_QUERIES
    assert chunk_size.queries_in_chunk(make_scenario(world={"grid": grid}), ["PEB-LH"]) == 500
    assert chunk_size.queries_in_chunk(make_scenario(world={"grid": grid}, **memoryless), ["SP-Exp"]) == 2_000
    size = chunk_size.chunk_size(make_scenario(), ["SP-Exp"], users=1_000_000, queries=20_000_000)
    assert size == ChunkSize(1, 2_000, 1_000_000)
    size = chunk_size.chunk_size(make_scenario(), ["SP-Exp", "PEB-LH"], users=19, queries=9_999)
    assert size == ChunkSize(1, 1, 19), "less than twice the minimum is not divided"


def test_large_populations_record_the_beliefs_of_a_sample(
    make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.storage.sampling.MOST_SNAPSHOT_VALUES", 20 * 2 * 15)
    users = {"count": 40, "queries": 3, "mobility": "favourites"}
    scenario = make_scenario(users=users, record={"snapshots": [1, 2]}, lppms=["PEB-Exp"])
    study = Study.of(scenario)
    cells = scenario.n_cells
    (chunk,) = study.plan.chunks()
    recorded = set(run_chunk(chunk, study.populations).snapshots["user"].tolist())
    most = snapshot_users(cells, 2)
    assert recorded == {user for user in study.populations.setting(chunk.point).users if in_sample(user, 40, most)}
    assert 0 < len(recorded) < 40
