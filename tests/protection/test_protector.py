"""Exactly one answer per query: after crashes at every point, with every kind of belief, and never a silent change."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import sim
from sim.protection import journal
from sim.protection.encoding import decode, encode
from sim.protection.protector import Protector
from sim.storage.errors import RunError
from tests.protection.streams import QUERIES, REGION, answers, begin, in_killed_process, positions, records
from tests.support import raises_code

BELIEFS = [
    "SP-Exp",
    "PEB-Exp",
    "PEB-LH",
    "RPEB-Exp",
    "MK-Exp",
    "PEB-MK-AMix",
    {"kind": "PEB-Exp", "belief": {"forget": {"half_life_days": 0.5}}},
    {"kind": "PEB-Exp", "belief": {"regularise": "cross_validated"}},
    {"belief": "home", "design": "exponential"},
    "ConstantOffset",
    "DailyOffset",
    {"kind": "DriftingOffset", "design": {"time_constant_h": 2.0}},
    {"belief": "fixed_profile", "design": {"kind": "memoised", "inner": "exponential"}},
    {"belief": "estimated_profile", "design": {"kind": "memoised", "inner": {"kind": "exponential"}}},
]
"""One mechanism with each way of learning."""

Point = Callable[[int], Any]


@pytest.mark.parametrize("lppm", BELIEFS, ids=str)
def test_restarted_stream_equals_uninterrupted_one_to_the_bit(lppm: Any, tmp_path: Path) -> None:
    queries = positions()
    expected = answers(tmp_path / "whole", lppm, queries)
    received = []
    for first in range(0, QUERIES, 5):
        with begin(tmp_path / "parts", lppm) as protector:
            received += [protector.report(*query) for query in queries[first : first + 5]]
            assert protector.changed_at() == {}
    assert received == expected
    assert records(tmp_path / "parts") == records(tmp_path / "whole")  # the digests of f(z | .) included


def test_killed_at_random_points_equals_uninterrupted_one(tmp_path: Path) -> None:
    queries, rng = positions(), np.random.default_rng(3)
    expected = answers(tmp_path / "whole", "PEB-Exp", queries)
    state = tmp_path / "killed"
    kills = 0
    while kills < 12:
        kills += 1
        calls = int(rng.integers(1, 40))

        def work(calls: int = calls) -> None:
            _kill_at(calls)
            answers(state, "PEB-Exp", queries)

        in_killed_process(work)
    assert answers(state, "PEB-Exp", queries) == expected
    assert records(state) == records(tmp_path / "whole")
    names = ("killed", "whole")
    assert {file.name for file in tmp_path.iterdir()} == {*names, *(f"{name}.lock" for name in names)}


def _kill_at(calls: int) -> None:
    """Kill this process at one of its writes: before, in the middle or after, or before or after synchronising."""
    write, fsync, left = os.write, os.fsync, calls

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def killed_write(handle: int, content: Any) -> int:
        step()
        half = len(content) // 2
        written = write(handle, content[:half])
        step()
        written += write(handle, content[half:])
        step()
        return written

    def killed_fsync(handle: int) -> None:
        step()
        fsync(handle)
        step()

    setattr(os, "write", killed_write)  # noqa: B010
    setattr(os, "fsync", killed_fsync)  # noqa: B010


@pytest.mark.parametrize("point", ["before", "torn", "written", "durable"])
def test_answer_is_given_only_after_it_is_durable(point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a seed: what was given stays, what was not durable is drawn again, and nothing is given twice."""
    queries = positions(4)
    state = tmp_path / "state"
    given = answers(state, "SP-LH", queries[:3], seed=None)
    before = state.read_bytes()
    write, fsync = os.write, os.fsync

    def failing_write(handle: int, content: Any) -> int:
        if point != "before":
            write(handle, content[: 20 if point == "torn" else None])
        raise OSError(28, "No space left on device")

    def failing_fsync(handle: int) -> None:
        if point == "durable":
            fsync(handle)
        raise OSError(5, "Input/output error")

    with begin(state, "SP-LH", seed=None) as protector:
        with monkeypatch.context() as patch:
            patch.setattr(
                os,
                "write" if point in ("before", "torn") else "fsync",
                failing_write if point in ("before", "torn") else failing_fsync,
            )
            with pytest.raises(RunError):
                protector.report(*queries[3])
        with raises_code(RunError, "state-closed"):  # the file may or may not hold the record
            protector.report(*queries[3])
    stored = state.read_bytes()
    assert stored.startswith(before)
    with begin(state, "SP-LH", seed=None) as protector:
        assert [protector.report(*query)._replace(repeated=False) for query in queries[:3]] == given
        assert protector.report(*queries[3]).repeated == (point in ("written", "durable"))
    assert len(records(state)) == 4


def test_every_torn_last_record_is_discarded(tmp_path: Path) -> None:
    state = tmp_path / "state"
    answers(state, "SP-LH", positions(3))
    content = state.read_bytes()
    start = content[:-1].rindex(b"\n") + 1
    for end in range(start, len(content)):
        for tail in (b"", b"\0" * 9, b"\0\n"):
            if end == start and not tail:
                continue
            torn = tmp_path / "torn"
            torn.write_bytes(content[:end] + tail)
            opened = journal.open_journal(torn)
            opened.close()
            assert len(opened.records) == 2
            assert torn.read_bytes() == content[:start]


def test_any_other_damage_is_an_error(tmp_path: Path) -> None:
    state = tmp_path / "state"
    answers(state, "SP-LH", positions(3))
    content = state.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(len(content) - 1, size=60, replace=False).tolist():
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(1, 7))
        state.write_bytes(bytes(damaged))
        with raises_code(RunError, "damaged-state"):
            journal.open_journal(state)
    lines = content.splitlines(keepends=True)
    for changed in ([lines[0], *lines[2:]], [*lines[:2], lines[3], lines[2]], lines[1:], []):
        state.write_bytes(b"".join(changed) or b"\n")
        with raises_code(RunError, "damaged-state"):
            journal.open_journal(state)


def test_repeated_query_gets_its_answer_whatever_the_position(tmp_path: Path) -> None:
    with begin(tmp_path / "s", "SP-LH", seed=None) as protector:
        first = [protector.report(60, 37.61, -122.49, seq=number) for number in range(30)]
        assert len({answer.output for answer in first}) > 1  # each query has its own noise
        again = [protector.report(99, 37.63, -122.45, seq=number) for number in range(30)]
        assert again == [answer._replace(repeated=True) for answer in first]
        assert protector.report(60, 37.61, -122.49) == protector.report(60, 37.63, -122.45)._replace(repeated=False)
        assert protector.report(59, 37.61, -122.49).status == "late"
        assert protector.report(59, 37.61, -122.49, user="other").status == "reported"


def test_position_outside_is_refused_or_moved_as_configured(tmp_path: Path) -> None:
    with begin(tmp_path / "a", "identity") as protector:
        refused = protector.report(0, 37.7, -122.45)
        assert (refused.status, refused.output, refused.place) == ("outside", None, None)
        assert protector.report(0, 37.61, -122.45) == refused._replace(repeated=True)
        assert protector.moved == 0
    with begin(tmp_path / "b", "identity", outside="nearest") as protector:
        assert protector.report(0, 37.7, -122.451).output == 19
        assert protector.moved == 1
        with raises_code(ValueError, "invalid-position"):
            protector.report(1, 137.7, -122.4)
        with raises_code(ValueError, "invalid-position"):
            protector.report(1, 37.7, float("nan"))


def test_state_is_private_and_used_by_one_process(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with begin(state):
        for file in (state, tmp_path / "state.lock"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        with raises_code(RunError, "state-in-use"):
            begin(state)
        code = f"import sim; sim.protect(state={str(state)!r})"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=False)
        assert "in use by another process" in other.stderr
    state.chmod(0o644)
    begin(state).close()
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert sorted(file.name for file in tmp_path.iterdir()) == ["state", "state.lock"]


def test_state_holds_no_position(tmp_path: Path) -> None:
    queries = [(60 * number, 37.6101234, -122.4909876) for number in range(5)]
    answers(tmp_path / "s", "PEB-Exp", queries, seed=None)
    assert b"37.61012" not in (tmp_path / "s").read_bytes()
    fields = {"user", "key", "time_s", "output", "check"}
    first, *others = [set(json.loads(line)) for line in records(tmp_path / "s")]
    assert first == fields
    assert all(other == fields | {"solution"} for other in others)


@pytest.mark.parametrize(
    ("changes", "omit"),
    [
        ({"lppm": "PEB-LH"}, "`lppm`"),
        ({"lppm": None, "settings": {"design.epsilon_per_km": 3.0}}, "`settings`"),
        ({"outside": "nearest"}, "`outside`"),
        ({"seed": 6}, "`seed`"),
        ({"world": "san_francisco"}, "`world`"),
        ({"training": np.arange(20.0)}, "`training`"),
    ],
    ids=str,
)
def test_state_continues_only_with_its_own_configuration(changes: dict[str, Any], omit: str, tmp_path: Path) -> None:
    begin(tmp_path / "s").close()
    with raises_code(sim.InputError, "state-mismatch") as refusal:
        begin(tmp_path / "s", **changes)
    assert f". Omit {omit} to continue it" in str(refusal.value)
    with sim.protect(state=tmp_path / "s") as protector:  # the refusal released the lock
        assert protector.setup.lppm.name == "PEB-Exp"


def test_training_is_part_of_the_state(tmp_path: Path) -> None:
    world = sim.make_world(REGION["grid"])
    trained = sim.make_statistics([[0, 1, 1, 7, 0, 1], [3, 3, 4]], world=world)
    queries = positions(12)
    expected = answers(tmp_path / "a", "MK-Exp", queries, training=trained)
    assert answers(tmp_path / "b", "MK-Exp", queries) != expected
    with begin(tmp_path / "c", "MK-Exp", training=trained) as protector:
        received = [protector.report(*query) for query in queries[:5]]
    with sim.protect(state=tmp_path / "c") as protector:
        assert received + [protector.report(*query) for query in queries[5:]] == expected
        assert protector.changed_at() == {}


def test_reports_have_the_probabilities_of_the_channel(tmp_path: Path) -> None:
    world = sim.make_world(REGION["grid"])
    mechanism = sim.make_lppm("SP-LH", world=world, reveal_probability=0.4, design={"remap": False})
    cell = int(world.grid.cell_of(37.61, -122.49))
    row = mechanism.channel(0).row(cell)
    with begin(tmp_path / "s", {"kind": "SP-LH", "design": {"reveal_probability": 0.4, "remap": False}}) as protector:
        outputs = [protector.report(number, 37.61, -122.49).output for number in range(1500)]
    counts = np.bincount(np.array(outputs, dtype=np.int64), minlength=row.size)
    assert ((counts - 1500 * row) ** 2 / (1500 * row)).sum() < 43.8  # chi-squared, 19 degrees of freedom, p = 0.001


@pytest.mark.parametrize(
    ("lppm", "places", "cells"),
    [
        ("Drop", 1, 0),
        ({"kind": "SP-Cloak", "design": {"k": 100}}, 1, 2),
        ({"belief": "fixed_profile", "design": {"kind": "dummies", "dummies": 2}}, 0, 3),
    ],
    ids=str,
)
def test_outputs_that_are_not_cells(lppm: Any, places: int, cells: int, tmp_path: Path) -> None:
    with begin(tmp_path / "s", lppm) as protector:
        received = [protector.report(number, 37.61, -122.49) for number in range(20)]
    reported = [answer for answer in received if answer.status == "reported"]
    assert reported
    assert all((answer.place is not None) == bool(places) for answer in reported)
    assert all(len(answer.cells) >= cells for answer in reported)
    if lppm == "Drop":
        assert {answer.status for answer in received} == {"reported", "nothing"}


def test_mechanisms_that_would_store_the_track_or_have_no_degrees_are_refused(tmp_path: Path) -> None:
    with raises_code(sim.ScenarioError, "learns-from-cells"):
        begin(tmp_path / "s", "PEB-full-Exp")
    with raises_code(sim.ScenarioError, "no-coordinates"):
        begin(
            tmp_path / "s", world={"grid": {"kind": "rectangle", "rows": 2, "cols": 2, "width_km": 1, "height_km": 1}}
        )
    with raises_code(
        sim.ScenarioError, "complete-mechanism-in-stream"
    ):  # never the placeholders of its belief and design
        begin(tmp_path / "s", {"name": "mine", "lppm": {"kind": "my_module:Mine"}})
    with raises_code(sim.InputError, "missing-option"):
        sim.protect(state=tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def test_restored_belief_of_another_version_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = positions(8)
    answers(tmp_path / "s", "PEB-Exp", queries[:4])
    from sim.protection import user

    digest = user._digest
    monkeypatch.setattr(user, "_digest", lambda channel, output: digest(channel, output)[::-1])
    with begin(tmp_path / "s") as protector:
        protector.report(*queries[4])
        assert protector.changed_at() == {"user": 1}


def test_process_that_forks_cannot_write(tmp_path: Path) -> None:
    with begin(tmp_path / "s") as protector:
        protector.report(*positions()[0])
        before = (tmp_path / "s").read_bytes()
        in_killed_process(lambda: _ignore_errors(protector))
        assert (tmp_path / "s").read_bytes() == before


def _ignore_errors(protector: Protector) -> None:
    with pytest.raises(RunError):
        protector.report(*positions()[1])


class _Named(NamedTuple):
    value: Any
    other: Any


@pytest.mark.parametrize(
    "value",
    [
        None,
        [True, -3, "é\n", 0.1, 1e-320, float("inf")],
        {3: (1, [2.5]), (1, 2): {}, "a": b"\0\xff"},
        _Named(1, _Named("b", (2,))),
        np.float64(0.1),
        np.uint8(3),
    ],
    ids=str,
)
def test_secrets_are_stored_exactly(value: Any) -> None:
    restored = decode(json.loads(json.dumps(encode(value), allow_nan=False)))
    assert restored == value
    assert repr(restored).replace("Secret", "_Named") == repr(value)


def test_arrays_of_secrets_are_stored_exactly() -> None:
    for array in (np.arange(6.0).reshape(2, 3) / 7, np.array([True]), np.zeros((0, 2), dtype=np.int32)):
        restored = decode(json.loads(json.dumps(encode({"a": array}))))["a"]
        np.testing.assert_array_equal(restored, array)
        assert (restored.dtype, restored.shape) == (array.dtype, array.shape)
    for value in (object(), {1, 2}, np.array([object()]), np.array(["a"])):
        with raises_code(sim.InputError, "secret-not-stored"):
            encode([value])


def test_memoised_answers_survive_a_restart(tmp_path: Path) -> None:
    """Without a seed: the second visit of a place gets the answer of the first one, also from another process."""
    lppm = {"belief": "fixed_profile", "design": {"kind": "memoised", "inner": "exponential"}}
    visits = [(number, 37.601 + 0.01 * (number % 4), -122.49) for number in range(12)]
    outputs = []
    for visit in visits:
        with begin(tmp_path / "s", lppm, seed=None) as protector:
            outputs.append(protector.report(*visit).output)
    assert outputs[:4] * 3 == outputs


def test_mechanism_with_secret_is_not_exported() -> None:
    with raises_code(sim.InputError, "mechanism-has-secret"):
        sim.export_mechanism("ConstantOffset", world=REGION)


def test_custom_design_needs_permission_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LPPM_SIM_ALLOW_CODE", raising=False)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "protected_design.py").write_text(
        "from sim.lppm.channels.hiding import identity\n\n\nclass Mine:\n    def __init__(self, *, world):\n"
        "        self.world = world\n\n    def __call__(self, prior):\n        return identity(prior.size)\n"
    )
    lppm = {"name": "mine", "belief": "estimated_profile", "design": {"kind": "protected_design:Mine"}}
    state = tmp_path / "s"
    allowed: dict[str, Any] = {"allow_code": tmp_path / "code"}
    with raises_code(sim.CodeNotAllowed, "code-not-allowed"):
        begin(state, lppm)
    assert not state.exists()
    with begin(state, lppm, **allowed) as protector:
        first = protector.report(0, 37.612, -122.49)
    with raises_code(sim.CodeNotAllowed, "code-not-allowed"):
        sim.protect(state=state)
    with sim.protect(state=state, **allowed) as protector:
        assert protector.report(0, 37.612, -122.49).place == first.place
        assert protector.report(9, 37.612, -122.49).place == first.place
