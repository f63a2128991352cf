"""Cache of channels: atomic files, verification, and a folder shared by several processes."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.components import user_cache
from sim.interfaces import FloatArray
from sim.lppm import cache
from sim.lppm.cache import ChannelCache, Solved


class Maker:
    """Function that returns an array and counts its calls."""

    def __init__(self, value: float = 1.0) -> None:
        self.value, self.calls = value, 0

    def __call__(self) -> Solved:
        self.calls += 1
        return Solved(np.full((3, 3), self.value), (np.arange(2),))


CHANNELS = ChannelCache()


def cached(digest: str, make: Maker) -> FloatArray:
    """Return the cached channel without verification."""
    return CHANNELS.channel(digest, make, lambda _: None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(user_cache.VARIABLE, str(tmp_path / "cache"))
    CHANNELS.clear_memory()
    return tmp_path / "cache"


def test_channel_is_computed_once_and_cached_in_memory_and_on_disk(folder: Path) -> None:
    maker = Maker()
    for _ in range(3):
        assert cached("a", maker).tolist() == np.ones((3, 3)).tolist()
    assert not cached("a", maker).flags.writeable
    CHANNELS.clear_memory()
    assert cached("a", maker).tolist() == np.ones((3, 3)).tolist()
    assert maker.calls == 1
    assert [path.name for path in folder.iterdir()] == ["a.npy"]
    assert cached("b", maker) is not None
    assert maker.calls == 2


def test_off_writes_nothing_to_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(user_cache.VARIABLE, "off")
    maker = Maker()
    for _ in range(2):
        cached("a", maker)
        cached("a", maker)
        CHANNELS.clear_memory()
    assert maker.calls == 2
    assert not folder.exists()


def test_default_folder_is_the_cache_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(user_cache.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    CHANNELS.clear_memory()
    cached("a", Maker())
    assert (tmp_path / "lppm-sim" / "channels" / "a.npy").exists()


def sealed(*arrays: Any) -> bytes:
    """Return the bytes of a cached file with these arrays and a checksum that matches."""
    sink = io.BytesIO()
    for array in arrays:
        np.save(sink, array, allow_pickle=True)
    return sink.getvalue() + hashlib.sha256(sink.getvalue()).digest()


DAMAGES = [
    "torn",
    "empty",
    "foreign",
    "changed",
    "other type",
    "pickled",
    "no array",
    "half an array",
    "folder",
    "pipe",
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_file_is_recomputed_with_a_notice(
    folder: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    maker = Maker()
    cached("a", maker)
    path = folder / "a.npy"
    whole = path.read_bytes()
    match damage:
        case "torn":
            path.write_bytes(whole[:150])
        case "empty":
            path.write_bytes(b"")
        case "foreign":
            path.write_text("no array at all")
        case "changed":
            path.write_bytes(whole[:130] + b"\x01" + whole[131:])
        case "other type":
            path.write_bytes(sealed(np.ones((3, 3), dtype=np.int64)))
        case "pickled":
            path.write_bytes(sealed(np.array([{}], dtype=object)))
        case "no array":
            path.write_bytes(sealed())
        case "half an array":
            half = sealed(np.ones((3, 3)))[:150]
            path.write_bytes(half + hashlib.sha256(half).digest())
        case "folder":
            path.unlink()
            path.mkdir()
        case "pipe":
            path.unlink()
            os.mkfifo(path)
    CHANNELS.clear_memory()
    assert cached("a", maker).tolist() == np.ones((3, 3)).tolist()
    assert maker.calls == 2
    notice = capsys.readouterr().err
    assert f"cached channel {path}: " in notice
    assert notice.count("\n") == 1
    if damage != "folder":
        assert path.read_bytes() == whole


def test_every_flipped_bit_is_detected(folder: Path) -> None:
    cached("a", Maker())
    path = folder / "a.npy"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with pytest.raises(cache.Unusable, match="damaged"):
            cache._read(path)


def test_unverified_solutions_are_neither_read_nor_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    maker = Maker()
    for _ in range(2):
        CHANNELS.channel("a", maker, lambda _: "test fault")
        CHANNELS.clear_memory()
    assert maker.calls == 2
    assert not folder.exists()
    assert capsys.readouterr().err == "", "no file existed that could be faulty"
    cached("a", maker)
    CHANNELS.clear_memory()
    CHANNELS.channel("a", maker, lambda solved: "test fault" if solved.certificate[0].tolist() == [0, 1] else None)
    assert maker.calls == 4
    assert capsys.readouterr().err.endswith("a.npy: test fault\n")


@pytest.mark.skipif(os.name != "posix", reason="file modes exist on POSIX only")
def test_folder_and_files_are_private(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0)
    try:
        cached("a", Maker())
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "a.npy").stat().st_mode) == 0o600
        folder.chmod(0o755)
        cached("b", Maker())
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755, "a named folder may be shared on purpose"
        monkeypatch.delenv(user_cache.VARIABLE)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        default = tmp_path / "cache" / "lppm-sim" / "channels"
        default.mkdir(mode=0o755, parents=True)
        cached("c", Maker())
        assert stat.S_IMODE(default.stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_unwritable_folder_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(user_cache.VARIABLE, str(tmp_path / "file" / "below"))
    CHANNELS.clear_memory()
    assert cached("a", Maker()).tolist() == np.ones((3, 3)).tolist()


def test_concurrent_writes_of_one_file_leave_a_whole_file(folder: Path) -> None:
    folder.mkdir()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: cache._write(folder / "a.npy", Maker(float(number % 2))()), range(40)))
    assert [path.name for path in folder.iterdir()] == ["a.npy"]
    assert cache._read(folder / "a.npy").channel.tolist() in (np.zeros((3, 3)).tolist(), np.ones((3, 3)).tolist())


def test_failed_write_leaves_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    cached("a", Maker())
    assert list(folder.iterdir()) == []


def test_oldest_files_are_removed_from_a_full_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_TIDY_EVERY_BYTES", 1)
    for number in range(4):
        cached(f"{number}", Maker())
        os.utime(folder / f"{number}.npy", (number, number))
    monkeypatch.setattr(cache, "MOST_BYTES", 3 * (folder / "0.npy").stat().st_size)
    cached("4", Maker())
    assert sorted(path.name for path in folder.iterdir()) == ["2.npy", "3.npy", "4.npy"]


def test_memory_holds_the_most_recently_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MEMORY_BYTES", 2 * 72)
    CHANNELS.clear_memory()
    maker = Maker()
    for digest in ("a", "b", "a", "c", "a"):
        cached(digest, maker)
    assert maker.calls == 3
    cached("b", maker)
    assert maker.calls == 4


def test_digests_differ_for_different_inputs() -> None:
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
    digests = [cache.digest_of(*inputs) for inputs in [*parts, (np.nextafter(one, 9),)]]
    assert cache.digest_of(one) == cache.digest_of(one.copy())
    assert digests[0] == digests[3] or (one + 1e-16 != one).any()
    assert len(set(digests)) == len(digests) - (digests[0] == digests[3])
