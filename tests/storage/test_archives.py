"""Archives of arrays: a flipped bit is detected."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from sim.storage import archives
from tests.storage.helpers import flips

ARRAYS: dict[str, Any] = {"profile": np.arange(12.0).reshape(3, 4), "user": np.array(["ann", "bob"])}


def test_every_flipped_bit_of_an_archive_is_detected() -> None:
    content = archives.packed(ARRAYS)
    for changed in flips(content, bits=tuple(range(8))):
        with pytest.raises(archives.DamagedArchive):
            archives.unpacked(changed)
    for length in range(len(content)):
        with pytest.raises(archives.DamagedArchive):
            archives.unpacked(content[:length])
    arrays = archives.unpacked(content, ["user", "none"])
    assert list(arrays) == ["user"]
    assert arrays["user"].tolist() == ["ann", "bob"]


def test_archives_of_earlier_versions_are_read() -> None:
    sink = io.BytesIO()
    np.savez_compressed(sink, **ARRAYS)
    assert archives.unpacked(sink.getvalue())["profile"].tolist() == ARRAYS["profile"].tolist()
    for changed in flips(sink.getvalue()):
        with suppress(archives.DamagedArchive):  # without a checksum: at least no other exception type
            archives.unpacked(changed)
