"""Kept channels: found again, whole or not at all, wherever they may lie and however many write."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sim.interfaces import FloatArray
from sim.lppm import kept


class Maker:
    """Makes an array and counts how often."""

    def __init__(self, value: float = 1.0) -> None:
        self.value, self.calls = value, 0

    def __call__(self) -> FloatArray:
        self.calls += 1
        return np.full((3, 3), self.value)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(kept.VARIABLE, str(tmp_path / "kept"))
    kept.forget()
    return tmp_path / "kept"


def test_made_once_in_memory_and_once_on_disk(folder: Path) -> None:
    maker = Maker()
    for _ in range(3):
        assert kept.kept("a", maker).tolist() == np.ones((3, 3)).tolist()
    assert not kept.kept("a", maker).flags.writeable
    kept.forget()
    assert kept.kept("a", maker).tolist() == np.ones((3, 3)).tolist()
    assert maker.calls == 1
    assert [path.name for path in folder.iterdir()] == ["a.npy"]
    assert kept.kept("b", maker) is not None
    assert maker.calls == 2


def test_off_keeps_nothing_on_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kept.VARIABLE, "off")
    maker = Maker()
    for _ in range(2):
        kept.kept("a", maker)
        kept.kept("a", maker)
        kept.forget()
    assert maker.calls == 2
    assert not folder.exists()


def test_unless_said_it_is_the_user_s_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kept.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept.forget()
    kept.kept("a", Maker())
    assert (tmp_path / "lppm-sim" / "channels" / "a.npy").exists()


@pytest.mark.parametrize("harm", ["torn", "empty", "foreign", "changed", "other type", "pickled"])
def test_a_file_that_is_not_whole_is_made_anew(folder: Path, harm: str) -> None:
    maker = Maker()
    kept.kept("a", maker)
    path = folder / "a.npy"
    whole = path.read_bytes()
    match harm:
        case "torn":
            path.write_bytes(whole[:150])
        case "empty":
            path.write_bytes(b"")
        case "foreign":
            path.write_text("no array at all")
        case "changed":
            path.write_bytes(whole[:130] + b"\x01" + whole[131:])
        case "other type":
            np.save(path, np.ones((3, 3), dtype=np.int64))
        case "pickled":
            np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    kept.forget()
    assert kept.kept("a", maker).tolist() == np.ones((3, 3)).tolist()
    assert maker.calls == 2
    assert path.read_bytes() == whole


def test_a_folder_that_cannot_be_written_to_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(kept.VARIABLE, str(tmp_path / "file" / "below"))
    kept.forget()
    assert kept.kept("a", Maker()).tolist() == np.ones((3, 3)).tolist()


def test_many_may_write_the_same(folder: Path) -> None:
    folder.mkdir()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: kept._write(folder / "a.npy", np.full((3, 3), float(number % 2))), range(40)))
    assert [path.name for path in folder.iterdir()] == ["a.npy"]
    found = kept._read(folder / "a.npy")
    assert found is not None
    assert found.tolist() in (np.zeros((3, 3)).tolist(), np.ones((3, 3)).tolist())


def test_a_failed_write_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    kept.kept("a", Maker())
    assert list(folder.iterdir()) == []


def test_the_oldest_go_when_there_is_too_much(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_LOOK_EVERY_BYTES", 1)
    for number in range(4):
        kept.kept(f"{number}", Maker())
        os.utime(folder / f"{number}.npy", (number, number))
    monkeypatch.setattr(kept, "MOST_BYTES", 3 * (folder / "0.npy").stat().st_size)
    kept.kept("4", Maker())
    assert sorted(path.name for path in folder.iterdir()) == ["2.npy", "3.npy", "4.npy"]


def test_memory_keeps_what_was_asked_for_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_MEMORY_BYTES", 2 * 72)
    kept.forget()
    maker = Maker()
    for digest in ("a", "b", "a", "c", "a"):
        kept.kept(digest, maker)
    assert maker.calls == 3
    kept.kept("b", maker)
    assert maker.calls == 4


def test_digests_tell_everything_apart() -> None:
    one = np.arange(4.0)
    parts = [
        (one,),
        (one.reshape(2, 2),),
        (one.astype(np.float32),),
        (one + 1e-16,),
        ("x", one),
        (one, 1.0),
        (one, None),
    ]
    digests = [kept.digest_of(*said) for said in [*parts, (np.nextafter(one, 9),)]]
    assert kept.digest_of(one) == kept.digest_of(one.copy())
    assert digests[0] == digests[3] or (one + 1e-16 != one).any()
    assert len(set(digests)) == len(digests) - (digests[0] == digests[3])
