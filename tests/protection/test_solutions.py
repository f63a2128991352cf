"""Results of costly computations in a state: a restart takes them, computes missing ones, and refuses damaged ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from sim.belief.estimated_profile import EstimatedProfile
from sim.inference.estimate import Estimate
from sim.interfaces import FloatArray
from sim.protection import journal, user
from sim.protection.encoding import pack_vector, unpack_vector
from tests.protection.streams import QUERIES, answers, begin, positions, records
from tests.support import raises_code


def rewritten(state: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the records of a state and renew its checksums."""
    lines = state.read_bytes().splitlines()[:1]
    last = lines[0].rpartition(b" ")[2].decode()
    for record in map(json.loads, records(state)):
        change(record)
        line, last = journal._line(record, last)
        lines.append(line.rstrip())
    state.write_bytes(b"\n".join(lines) + b"\n")


def solves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by one entry with each estimate."""
    made: list[int] = []
    solve = EstimatedProfile._solve

    def counted(belief: EstimatedProfile, weights: FloatArray | None) -> Estimate:
        made.append(1)
        return solve(belief, weights)

    monkeypatch.setattr(EstimatedProfile, "_solve", counted)
    return made


@pytest.mark.parametrize("omitted", ["none", "all", "some"])
def test_restart_takes_stored_solutions_and_repeats_missing_ones(
    omitted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older states have no solutions, and large solutions are not stored."""
    queries = positions()
    expected = answers(tmp_path / "whole", "PEB-Exp", queries)
    answers(tmp_path / "parts", "PEB-Exp", queries[:-1])
    left_out = {"none": (), "all": range(QUERIES), "some": range(0, QUERIES, 3)}[omitted]
    numbers = iter(range(QUERIES))
    rewritten(tmp_path / "parts", lambda record: record.pop("solution", None) if next(numbers) in left_out else None)
    made = solves(monkeypatch)
    with begin(tmp_path / "parts") as protector:
        assert protector.report(*queries[-1]) == expected[-1]
        assert protector.changed_at() == {}
    reports = QUERIES - 1  # one query is outside; the first report needs no estimate
    assert len(made) == {"none": 1, "all": reports - 1, "some": 7}[omitted]
    assert records(tmp_path / "parts")[-1] == records(tmp_path / "whole")[-1]


def test_large_solution_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user, "MOST_CHARACTERS", 10)
    answers(tmp_path / "s", "PEB-Exp", positions(4))
    assert not any(b"solution" in record for record in records(tmp_path / "s"))


@pytest.mark.parametrize("solution", ["eA==", "?", "", pack_vector(np.ones(3)), pack_vector(np.zeros(23))])
def test_damaged_solution_is_an_error(solution: str, tmp_path: Path) -> None:
    queries = positions(4)
    answers(tmp_path / "s", "PEB-Exp", queries[:3])
    rewritten(tmp_path / "s", lambda record: record.update(solution=solution) if "solution" in record else None)
    with begin(tmp_path / "s") as protector, raises_code(sim.UserError, "damaged-state"):
        protector.report(*queries[3])


def test_wrong_solution_is_reported(tmp_path: Path) -> None:
    """A wrong solution with a correct checksum changes the channel, whose digest shows it.

    Under this one the stored output is impossible, so the belief cannot learn from it.
    """
    queries = positions(4)
    answers(tmp_path / "s", "PEB-Exp", queries[:3])
    wrong = pack_vector(np.r_[0.0, 1.0, -1.0, np.eye(20)[7]])
    rewritten(tmp_path / "s", lambda record: record.update(solution=wrong) if "solution" in record else None)
    with begin(tmp_path / "s") as protector:
        protector.report(*queries[3])
        assert protector.changed_at() == {"user": 3}  # at report 2, the initial profile prevails


def test_compressed_vector_is_limited() -> None:
    with pytest.raises(ValueError, match="more than 99 numbers"):
        unpack_vector(pack_vector(np.zeros(100)), 99)
    assert unpack_vector(pack_vector(np.zeros(99)), 99).tolist() == [0.0] * 99
