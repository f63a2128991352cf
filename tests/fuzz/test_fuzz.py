"""A short run of the fuzzers with a fixed seed; ``make fuzz`` runs a long one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from sim.errors import UserError
from tests.fuzz import trace_oracle
from tests.fuzz.harness import judge, run_case, warm_up
from tests.fuzz.targets import SHARES, TARGETS, split

SEED = 1
CASES = {"scenario": 120, "traces": 300, "runs": 40}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TARGETS))
def test_every_mutated_input_yields_a_correct_result_or_a_message(name: str, tmp_path: Path) -> None:
    warm_up()
    target = TARGETS[name](tmp_path)
    outcomes = [run_case(target, SEED, number, tmp_path) for number in range(CASES[name])]
    failed = [outcome for outcome in outcomes if outcome.verdict == "failed"]
    listed = "\n".join(f"case {outcome.number}: {outcome.cause}\n{outcome.details[-1500:]}" for outcome in failed[:10])
    assert not failed, f"{len(failed)} of {len(outcomes)} cases failed:\n{listed}"
    assert {"accepted", "rejected"} <= {outcome.verdict for outcome in outcomes}


class Planted:
    """A target with a planted fault."""

    name = "planted"

    def __init__(self, fault: Callable[[], object]) -> None:
        self._fault = fault

    def make(self, rng: Random, folder: Path) -> None:
        (folder / "input").write_text(str(rng.random()))

    def drive(self, folder: Path) -> bool:
        self._fault()
        return True


def _raises(error: BaseException) -> Callable[[], object]:
    def fault() -> None:
        raise error

    return fault


def _suppresses(operation: Callable[[], object]) -> Callable[[], object]:
    def fault() -> None:
        try:
            operation()
        except BaseException:
            return

    return fault


def _spin() -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (lambda: 1 / 0, "ZeroDivisionError"),
        (_raises(UserError("")), "message is empty"),
        (lambda: print("a\x1b[31mb"), "output has control characters"),
        (_raises(UserError("Traceback (most recent call last):")), "message shows Python internals"),
        (lambda: os.system("true"), "escape: starts a process"),
        (_suppresses(lambda: os.system("true")), "escape: starts a process"),
        (lambda: Path("../outside").write_text("x"), "escape: writes outside its folder"),
        (lambda: Path("../outside").mkdir(), "escape: os.mkdir outside its folder"),
        (lambda: __import__("antigravity"), "escape: imports the module"),
        (_spin, "hang at"),
    ],
)
def test_planted_faults_are_detected(
    fault: Callable[[], object], cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fuzz.harness.CPU_LIMIT_S", 0.2)
    outcome = run_case(Planted(fault), SEED, 0, tmp_path)
    assert outcome.verdict == "failed"
    assert outcome.cause.startswith(cause)
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize(
    ("fault", "verdict"), [(lambda: Path("inside").write_text("x"), "accepted"), (_raises(UserError("no")), "rejected")]
)
def test_allowed_operations_pass(fault: Callable[[], object], verdict: str, tmp_path: Path) -> None:
    assert run_case(Planted(fault), SEED, 0, tmp_path).verdict == verdict


def test_code_of_the_input_is_never_run(tmp_path: Path) -> None:
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "evil.py").write_text("open('mark', 'w')")

    def fault() -> None:
        import importlib
        import sys

        sys.path.insert(0, str(tmp_path / "case"))
        importlib.import_module("evil")

    assert judge(Planted(fault), tmp_path / "case").cause == "escape: imports the module evil.py"
    assert not (tmp_path / "case" / "mark").exists()


def test_cases_are_reproducible(tmp_path: Path) -> None:
    for name, make in TARGETS.items():
        target = make(tmp_path)
        contents = []
        for copy in ("one", "two"):
            (tmp_path / name / copy).mkdir(parents=True)
            target.make(Random(f"{name}/7"), tmp_path / name / copy)
            files = sorted(path for path in (tmp_path / name / copy).rglob("*") if path.is_file())
            contents.append([path.read_bytes() for path in files])
        assert contents[0] == contents[1]


def test_cases_are_split_by_the_shares() -> None:
    cases = split(20_000, list(TARGETS))
    assert len(set(cases)) == 20_000
    assert {name: sum(target == name for target, _ in cases) for name in TARGETS} == {
        name: 20_000 * share for name, share in SHARES.items()
    }


def test_oracle_sorts_ids_of_any_length_numerically() -> None:
    names = ["10", "-2", "9" * 5000, "1" + "0" * 5000, "007", "-10"]
    assert trace_oracle.in_order(names) == ["-10", "-2", "007", "10", "9" * 5000, "1" + "0" * 5000]
