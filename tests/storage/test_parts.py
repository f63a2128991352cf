"""Part files: a flipped bit is detected or changes nothing."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sim.storage import parts
from sim.storage.errors import DamagedRun
from sim.storage.event_schema import EVENTS, columns_of
from sim.storage.parts import PARQUET_OPTIONS, DamagedPart
from sim.storage.run_directory import RunDirectory
from tests.storage.helpers import events, flips
from tests.support import raises_code

NOTES = {"SP-Exp": {"attack_fallbacks": {"markov": 3}, "worst_gap": 1e-9}}
ABOUT = {"part": "p", "run": "digest"}


def a_part(n: int = 5) -> bytes:
    """Return the bytes of a part with n rows."""
    table = events(n).set_column(1, EVENTS.field("shift"), pa.array(["move", None] * n, pa.string())[:n])
    return parts.encode(table, **ABOUT, notes=NOTES)


def read(content: bytes) -> tuple[pa.Table, Any, Any]:
    """Return rows, identity and statistics of a part."""
    with parts.opened(io.BytesIO(content), place="p.parquet", remedy="Run again.") as part:
        shift = part.metadata.row_group(0).column(1).statistics
        assert shift is not None
        return part.read(), (part.notes, part.part, part.run), (part.metadata.num_rows, shift.null_count, shift.min)


def test_every_flipped_bit_of_a_part_is_detected_or_harmless() -> None:
    content = a_part()
    whole = read(content)
    assert whole[1] == (NOTES, "p", "digest")
    reasons = []
    for changed in flips(content):
        try:
            assert read(changed) == whole
        except DamagedPart as error:
            reasons.append(str(error))
    assert all(re.fullmatch(r"(?s)p\.parquet .+\. Run again\.", reason) for reason in reasons)
    assert len(reasons) > 2 * (len(content) - 100), "almost all bytes are covered"


def test_every_truncated_part_is_detected() -> None:
    content = a_part()
    for length in range(len(content)):
        with pytest.raises(DamagedPart):
            read(content[:length])


@pytest.mark.parametrize("column", EVENTS.names)
def test_a_column_is_verified_when_it_is_read(column: str) -> None:
    """Damage to headers, dictionaries or values of a column is detected when this column is read."""
    content = a_part(50)
    metadata = pq.read_metadata(io.BytesIO(content)).row_group(0).column(EVENTS.get_field_index(column))
    start = metadata.dictionary_page_offset or metadata.data_page_offset
    others = [name for name in EVENTS.names if name != column]
    for place in (start, start + 1, start + metadata.total_compressed_size - 1):
        changed = bytearray(content)
        changed[place] ^= 4
        with parts.opened(io.BytesIO(bytes(changed)), place="p", remedy="") as part:
            assert part.read(others).num_rows == 50
            with pytest.raises(DamagedPart, match=rf"\bcolumn {column}\b"):
                part.read([column])
            with pytest.raises(DamagedPart):
                part.verify()


def test_checksums_cover_several_row_groups_and_empty_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_rows(parts.encode(EVENTS.empty_table(), **ABOUT, notes={})) == EVENTS.empty_table()
    table = events(100)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", _in_small_groups(pq.ParquetWriter.write_table))
    content = parts.encode(table, **ABOUT, notes={})
    metadata = pq.read_metadata(io.BytesIO(content))
    assert metadata.num_row_groups == 4
    assert read_rows(content) == table.cast(EVENTS)
    chunk = metadata.row_group(3).column(EVENTS.get_field_index("user"))
    changed = bytearray(content)
    changed[chunk.data_page_offset] ^= 1
    with pytest.raises(DamagedPart, match="column user"):
        read_rows(bytes(changed))


def _in_small_groups(write: Callable[..., None]) -> Callable[..., None]:
    return lambda self, table: write(self, table, row_group_size=25)


def read_rows(content: bytes) -> pa.Table:
    """Return the rows of a part."""
    with parts.opened(io.BytesIO(content), place="p", remedy="") as part:
        return part.read()


def an_earlier_part(notes: str = json.dumps(NOTES)) -> bytes:
    """Return a part of a version without column checksums."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, EVENTS, **PARQUET_OPTIONS) as writer:
        writer.add_key_value_metadata({"lppm_sim": notes})
        writer.write_table(events(5))
    return sink.getvalue()


def test_parts_of_earlier_versions_are_read() -> None:
    content = an_earlier_part()
    with parts.opened(io.BytesIO(content), place="p", remedy="") as part:
        assert part.read() == events(5).cast(EVENTS)
        assert (part.notes, part.part, part.run) == (NOTES, None, None)
        part.verify()
    notes = json.dumps(NOTES).encode()
    start = content.index(notes)
    for changed in flips(notes):  # without a checksum: at least no other exception type
        with suppress(DamagedPart):
            read_rows(content[:start] + changed + content[start + len(notes) :])
    for strange in ("{", "[]", "\x80"):
        with pytest.raises(DamagedPart):
            read_rows(an_earlier_part(strange))


def test_a_part_with_the_name_of_another_is_refused(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run")
    run.write_part("a", events())
    shutil.copy(run.path / "events" / "a.parquet", run.path / "events" / "b.parquet")
    with raises_code(DamagedRun, "damaged-part") as error:
        run.read_part("b")
    assert re.search(r"b\.parquet .* part a\. `lppm-sim run SCENARIO -o ", str(error.value))
    assert [part for part, _ in run.check_parts(thorough=False)] == ["b"]


@pytest.mark.parametrize("version", [3, 4])
def test_a_part_of_an_earlier_schema_version_is_read_with_null_columns(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    earlier = pa.schema([EVENTS.field(name) for name in columns_of(version)])
    with monkeypatch.context() as patch:
        patch.setattr(parts, "EVENTS", earlier)
        content = parts.encode(events(5).select(earlier.names), **ABOUT, notes=NOTES)
    with parts.opened(io.BytesIO(content), place="p.parquet", remedy="Run again.") as part:
        part.verify()
        assert part.read().equals(events(5))
        one = part.read(["posterior_within_2km", "user"])
    assert one.column_names == ["posterior_within_2km", "user"]
    assert one["posterior_within_2km"].null_count == 5
    reasons = []
    for changed in flips(content):
        try:
            assert read(changed)[0].equals(events(5))
        except DamagedPart as error:
            reasons.append(str(error))
    assert len(reasons) > 2 * (len(content) - 100)
