"""Chunks that continue from a checkpoint have the results of uninterrupted ones, to the bit."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from sim.components import user_cache
from sim.execution import checkpoints
from sim.execution.checkpoints import Checkpoint
from sim.execution.run import run
from sim.scenario.models import Scenario
from sim.simulation import engine
from sim.simulation.progress import Silent
from sim.storage.run_directory import RunDirectory
from tests.support import MakeScenario, files

LARGE = {"kind": "rectangle", "rows": 40, "cols": 40, "width_km": 8.0, "height_km": 8.0}
LEARNING = [
    "SP-Exp",
    "MK-Exp",
    "PEB-Exp",
    "PEB-LH",
    "RPEB-Exp",
    "PEB-MK-Exp",
    "PEB-full-Exp",
    {"kind": "PEB-Exp", "name": "adaptive", "belief": {"forget": {"adaptive": True, "window": 8}}},
    {"kind": "PEB-Exp", "name": "mixed", "belief": {"regularise": "cross_validated"}},
    {"kind": "PEB-Exp", "name": "budget", "design": {"quality_budget_km": 0.6}},
]
ATTACKS = [
    "sporadic",
    "markov",
    "smoothing",
    "path",
    "sporadic-learning",
    "markov-learning",
    "face-value",
    "home",
    {"kind": "sporadic", "name": "assuming", "assumes": {"kind": "exponential"}},
]
CASES: dict[str, dict[str, Any]] = {
    "learning": {"lppms": LEARNING, "attacks": ATTACKS},
    "everybody": {
        "lppms": ["PEB-Exp", "MK-Exp"],
        "attacks": ["identification", "identification-markov"],
        "names": "hidden",
        "users": {"count": 3, "queries": 12, "mobility": "favourites", "demand": {"kind": "periodic", "period_s": 600}},
    },
    "shifts": {
        "lppms": ["PEB-Exp", "MK-Exp"],
        "attacks": ["sporadic", "markov"],
        "record": {"posterior": True, "epsilon": "euclidean"},
        "shifts": [{"kind": "relocate", "at_query": 6}],
        "replications": 2,
    },
    "outputs": {
        "lppms": [
            {"name": design, "belief": "estimated_profile", "design": design}
            for design in ("cloaking", "planar_laplace", "dummies", "optimal_quality")
        ],
    },
    "secrets": {
        "lppms": [
            "DailyOffset",
            "DriftingOffset",
            {"name": "Memo", "belief": "estimated_profile", "design": {"kind": "memoised", "inner": "exponential"}},
        ],
        "attacks": [
            "sporadic",
            "markov",
            "sporadic-learning",
            {"kind": "markov", "name": "ignoring", "ignores_memory": True},
            {"kind": "sporadic", "name": "assuming", "assumes": "drifting_offset"},
        ],
    },
    "compact": {
        "world": {"grid": LARGE},
        "lppms": ["PEB-Exp", "PEB-LH", "PEB-MK-Exp"],
        "record": {"expected": False},
    },
    "euclidean": {
        "world": {"grid": LARGE, "privacy_distance": "euclidean", "quality_distance": "euclidean"},
        "lppms": ["SP-Exp", "PEB-Exp"],
        "attacks": ["markov"],
        "record": {"expected": False},
        "users": {"count": 2, "queries": 8, "mobility": "favourites"},
    },
}


class Interrupted(Silent):
    """Progress callback that interrupts the run after a number of queries, those of a checkpoint included."""

    def __init__(self, after: int) -> None:
        self.left = after

    def advance(self, queries: int) -> None:
        self.left -= queries
        if self.left <= 0:
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def _at_every_instant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Save a checkpoint at every instant, with a key of this test."""
    monkeypatch.setenv(user_cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(engine, "_STEPS", 1)
    monkeypatch.setattr(checkpoints, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(checkpoints, "_MOST_SHARE", 1e9)


def interrupted(scenario: Scenario, out: Path, after: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(scenario, out=out, figures=False, progress=Interrupted(after))


def parts(out: Path) -> dict[str, bytes]:
    return {name: content for name, content in files(out).items() if name.split("/")[0] in ("events", "snapshots")}


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list of the states that chunks continue from."""
    states: list[Any] = []
    load = Checkpoint.load

    def recording(checkpoint: Checkpoint, built: Any) -> Any:
        states.append(load(checkpoint, built))
        return states[-1]

    monkeypatch.setattr(Checkpoint, "load", recording)
    return states


@pytest.mark.parametrize("case", CASES)
def test_a_run_continues_to_the_same_bits(
    case: str, make_scenario: MakeScenario, tmp_path: Path, loaded: list[Any]
) -> None:
    changes = {"users": {"count": 2, "queries": 12, "mobility": "favourites"}} | CASES[case]
    scenario = make_scenario(**changes)
    queries = scenario.users.queries * scenario.users.count * len(scenario.lppms)  # type: ignore[operator]
    run(scenario, out=tmp_path / "whole", figures=False)
    loaded.clear()
    for share in (0.3, 0.55, 0.9):
        interrupted(scenario, tmp_path / "resumed", round(queries * share))
    assert list((tmp_path / "resumed" / "checkpoints").iterdir())
    run(scenario, out=tmp_path / "resumed", figures=False)
    assert sum(state is not None for state in loaded) >= 2
    assert parts(tmp_path / "resumed") == parts(tmp_path / "whole")
    assert not list((tmp_path / "resumed" / "checkpoints").iterdir())


def test_queries_of_a_checkpoint_are_reported_once(make_scenario: MakeScenario, tmp_path: Path) -> None:
    class Counted(Silent):
        queries = 0

        def advance(self, queries: int) -> None:
            self.queries += queries

    scenario = make_scenario()
    interrupted(scenario, tmp_path / "run", 80)
    counted = Counted()
    run(scenario, out=tmp_path / "run", figures=False, progress=counted)
    assert counted.queries == 150


class Planted:
    """An object whose unpickling leaves a trace."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (Path(self.path),)


@pytest.mark.parametrize("forged", ["unsigned", "other key"])
def test_a_checkpoint_of_somebody_else_runs_no_code(
    forged: str,
    make_scenario: MakeScenario,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenario, out = make_scenario(), tmp_path / "run"
    interrupted(scenario, out, 80)
    (file,) = (out / "checkpoints").iterdir()
    if forged == "unsigned":
        file.write_bytes(pickle.dumps(Planted(str(tmp_path / "trace"))) + file.read_bytes()[-32:])
    else:
        directory = RunDirectory.open(out)
        monkeypatch.setenv(user_cache.VARIABLE, str(tmp_path / "cache of somebody else"))
        Checkpoint(directory, file.stem).save(Planted(str(tmp_path / "trace")), {})
        monkeypatch.setenv(user_cache.VARIABLE, str(tmp_path / "cache"))
    run(scenario, out=out, figures=False)
    assert not (tmp_path / "trace").exists()
    assert "not a checkpoint of this user and run" in capsys.readouterr().err
    run(scenario, out=tmp_path / "whole", figures=False)
    assert parts(out) == parts(tmp_path / "whole")


def checkpoint(folder: Path, chunk: str = "chunk") -> Checkpoint:
    return Checkpoint(RunDirectory.create(folder / "run"), chunk)


def test_a_checkpoint_belongs_to_its_chunk(tmp_path: Path) -> None:
    one, other = checkpoint(tmp_path, "one"), checkpoint(tmp_path, "other")
    one.save("state", {})
    stored = tmp_path / "run" / "checkpoints" / "one.checkpoint"
    stored.rename(stored.with_name("other.checkpoint"))
    assert one.load({}) is None
    assert other.load({}) is None


def test_objects_that_processes_build_are_references(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario()
    world, again = scenario.build_world(), scenario.build_world()
    distances = [world.quality_distance, world.quality_distance.matrix_km, world]
    checkpoint(tmp_path).save(distances, {"world": world})
    distance, matrix, built = checkpoint(tmp_path).load({"world": again})
    assert distance is again.quality_distance
    assert matrix is again.quality_distance.matrix_km
    assert built is again


def test_a_state_that_cannot_be_saved_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = checkpoint(tmp_path)
    assert saved.is_due()
    saved.save(lambda: None, {})
    assert "an interrupt loses this simulation" in capsys.readouterr().err
    assert not saved.is_due()


def test_without_a_private_key_there_are_no_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint(tmp_path)
    key = tmp_path / "cache" / "checkpoint.key"
    assert key.stat().st_mode & 0o777 == 0o600
    readable = tmp_path / "readable"
    readable.mkdir()
    key.rename(readable / "checkpoint.key").chmod(0o644)
    for folder in (str(readable), "off"):
        monkeypatch.setenv(user_cache.VARIABLE, folder)
        assert not checkpoint(tmp_path).is_due()
