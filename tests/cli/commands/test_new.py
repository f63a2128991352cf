"""The command `new`: it writes a scenario that runs and never replaces a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.scenario.examples import examples
from sim.storage.load import load
from tests.support import done, refused

QUICK = ["users.count=2", "users.queries=5", "replications=1"]


def settings(*values: str) -> list[str]:
    return [word for value in values for word in ("--set", value)]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_template_runs() -> None:
    assert done("new") == "wrote scenario.yaml; next: lppm-sim run scenario.yaml\n"
    out = done("run", "scenario.yaml", "--no-figures", *settings(*QUICK, "training.others.count=3"))
    assert "PEB-Exp" in out
    done("new", "other.yaml")
    assert Path("other.yaml").read_bytes() == Path("scenario.yaml").read_bytes()


def test_existing_files_are_not_replaced() -> None:
    Path("small.yaml").write_text("kept")
    assert "small.yaml" in refused("new", "small.yaml")
    Path("traces").mkdir()
    Path("traces/checkins.csv").write_text("mine")
    assert "checkins.csv" in refused("new", "--example", "replay_csv")
    assert Path("small.yaml").read_text() == "kept"
    assert Path("traces/checkins.csv").read_text() == "mine"
    assert not Path("replay_csv.yaml").exists()
    assert "no/where" in refused("new", "no/where/x.yaml")
    assert refused("new", f"{'x' * 300}.yaml")


def test_example_is_copied_with_the_files_that_it_reads() -> None:
    done("new", "--example", "replay_csv", "mine.yaml")
    assert sorted(str(path) for path in Path().rglob("*.*")) == ["mine.yaml", "traces/checkins.csv"]
    assert "PEB-Exp" in done("run", "mine.yaml", "--no-figures", *settings("users.count=2", "users.queries=5"))


@pytest.mark.parametrize("example", [one.name for one in examples() if one.name != "san_francisco_roads"])
def test_every_copied_example_is_valid(example: str) -> None:
    done("new", "--example", example, "copy.yaml")
    assert load("copy.yaml").lppms


def test_example_runs_from_anywhere() -> None:
    done("run", "example:sporadic_checkins", "--no-figures", *settings(*QUICK, "training.others.count=3"))
    [run] = Path("outputs").iterdir()
    assert run.name.startswith("sporadic_checkins-")


def test_unknown_example_suggests_the_nearest_one() -> None:
    for words in (("new", "--example", "taxi"), ("run", "example:taxi")):
        assert "taxi_5min" in refused(*words)
    assert not list(Path().iterdir())


def test_examples_are_listed_with_their_descriptions() -> None:
    listing = done("new", "--list")
    for one in examples():
        assert one.name in listing
        assert one.description
