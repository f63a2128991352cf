"""Part files: the rows of some simulations as Parquet, with checksums over every byte that a reader uses.

Parquet's page checksums cover neither page headers nor the footer, and thus neither statistics nor notes. A part
therefore contains a checksum of its footer and one of each column, as stored, in the footer's key-value metadata. The
footer is verified before it is parsed and a column before it is decoded, at the cost of hashing the compressed bytes
that are read. Parts of earlier versions have page checksums only and can still be read.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sim.storage.errors import DamagedRun
from sim.storage.event_schema import EVENTS, MEASURES, READABLE_VERSIONS, columns_of

# Realised distances take few values, so dictionaries compress them well. Expected distances are all different;
# splitting their bytes compresses them a little. The types are plain, so pandas, polars and DuckDB read them directly.
_SPLIT = [name for name in EVENTS.names if name.startswith(("expected_", "posterior_"))]
PARQUET_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": [name for name in EVENTS.names if name not in _SPLIT],
    "use_byte_stream_split": _SPLIT,
    "write_page_checksum": True,
    "store_schema": False,
}

# No single flipped bit turns these keys into the key of earlier versions, which stored the notes only.
_ABOUT = "lppm_sim_part"
_CHECKSUMS = "lppm_sim_checksums"
_EARLIER_NOTES = b"lppm_sim"
# JSON texts contain no line break, and the notes are the only other text after the statistics in a footer.
_MARKER = b"lppm-sim part checksums:\n"
_DIGITS = 16
_TAIL_BYTES = 8
_MAGIC = b"PAR1"


class DamagedPart(DamagedRun):
    """A part that exists and cannot be read."""

    code = "damaged-part"


def encode(
    table: pa.Table, *, part: str, run: str | None, notes: Mapping[str, Any], snapshots: str | None = None
) -> bytes:
    """Return the bytes of a part: rows, id, notes, and the digests of its run and of its snapshots."""
    sink = io.BytesIO()
    about = {"notes": notes, "part": part, "run": run, "snapshots": snapshots}
    text = json.dumps(about, sort_keys=True, allow_nan=False)
    blank = _MARKER + b"0" * _DIGITS * (1 + len(EVENTS.names))
    with pq.ParquetWriter(sink, EVENTS, **PARQUET_OPTIONS) as writer:
        # Metadata of the table would be dropped, since no Arrow schema is stored.
        writer.add_key_value_metadata({_ABOUT: text, _CHECKSUMS: blank.decode()})
        writer.write_table(_checked(table))
    return _with_checksums(sink.getvalue())


def _with_checksums(content: bytes) -> bytes:
    """Insert the checksums of the columns, then that of the footer, which covers them."""
    file = pa.BufferReader(content)
    metadata = pq.read_metadata(file)
    columns = "".join(_column_digest(file, metadata, column) for column in range(metadata.num_columns))
    length = int.from_bytes(content[-_TAIL_BYTES:-4], "little")
    footer = bytearray(content[-_TAIL_BYTES - length : -_TAIL_BYTES])
    place = footer.rfind(_MARKER) + len(_MARKER)
    footer[place + _DIGITS : place + _DIGITS + len(columns)] = columns.encode()
    footer[place : place + _DIGITS] = _footer_digest(bytes(footer), place).encode()
    return b"".join([memoryview(content)[: -_TAIL_BYTES - length], footer, content[-_TAIL_BYTES:]])


class Part:
    """An open part. Data are verified before they are returned; damage raises DamagedPart with the remedy."""

    def __init__(self, file: pa.NativeFile, *, place: str, remedy: str) -> None:
        self._file, self._place, self._remedy = file, place, remedy
        with self._named():
            self._columns = _verified_footer(file)
            # Parts without column checksums have page checksums.
            self._parquet = pq.ParquetFile(file, page_checksum_verification=self._columns is None)
            schema = self._parquet.schema_arrow
            self._names: list[str] = schema.names
            if schema.names not in map(columns_of, READABLE_VERSIONS) or schema.types != EVENTS.types[: len(schema)]:
                versions = " or ".join(map(str, READABLE_VERSIONS))
                raise ValueError(f"its columns are not those of schema version {versions}")
            known: dict[bytes, bytes] = self._parquet.metadata.metadata or {}
            about = self._about(known)
        self.notes: dict[str, Any] = about["notes"]
        self.part: str | None = about["part"]
        """Id of the part; None in parts of earlier versions."""
        self.run: str | None = about["run"]
        """Digest of the run; None in parts of earlier versions."""
        self.snapshots: str | None = about["snapshots"]
        """Digest of the file of snapshots; None if there is none."""
        self.knows_snapshots = self._columns is not None
        """Whether the part records the digest of its snapshots; parts of earlier versions do not."""

    @property
    def metadata(self) -> pq.FileMetaData:
        """Number of rows and statistics of columns."""
        return self._parquet.metadata

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows, with all or some columns; those of later schema versions are null."""
        names = EVENTS.names if columns is None else list(columns)
        present = [name for name in names if name in self._names]
        with self._named():
            self._verify(present)
            table = self._parquet.read(columns=present)
        for place, name in enumerate(names):
            if name not in self._names and name in EVENTS.names:
                nulls: pa.Array[Any] = pa.nulls(self.metadata.num_rows, EVENTS.field(name).type)
                table = table.add_column(place, EVENTS.field(name), nulls)
        return table

    def verify(self) -> None:
        """Verify all columns, without decoding them if there are column checksums."""
        with self._named():
            if self._columns is None:
                self._parquet.read()
            else:
                self._verify(self._names)

    def fault(self, reason: object) -> DamagedPart:
        """Return the error that this part cannot be used."""
        return DamagedPart(f"{self._place} cannot be read: {str(reason).rstrip('.')}. {self._remedy}")

    def _verify(self, names: Sequence[str]) -> None:
        if self._columns is None:
            return
        for name in dict.fromkeys(names):
            index = EVENTS.get_field_index(name)
            if index >= 0 and _column_digest(self._file, self.metadata, index) != self._columns[index]:
                raise ValueError(f"the checksum of column {name} does not match")

    def _about(self, known: Mapping[bytes, bytes]) -> dict[str, Any]:
        if self._columns is not None:
            about: dict[str, Any] = json.loads(known[_ABOUT.encode()])
            return about
        if _EARLIER_NOTES not in known:
            raise ValueError("it has no checksums")
        notes = json.loads(known[_EARLIER_NOTES])
        if not isinstance(notes, dict):
            raise ValueError("its notes are not an object")
        return {"notes": notes, "part": None, "run": None, "snapshots": None}

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except _UNREADABLE as error:
            raise self.fault(error) from error


# What pyarrow and json raise on damaged files; ArrowException and UnicodeDecodeError include ValueErrors.
_UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError)


@contextmanager
def opened(source: os.PathLike[str] | BinaryIO, *, place: str, remedy: str) -> Iterator[Part]:
    """Open a part from its path or from a file in memory."""
    try:
        file = pa.OSFile(os.fspath(source), "rb") if isinstance(source, os.PathLike) else pa.BufferReader(source.read())
    except OSError as error:
        raise DamagedPart(f"{place} cannot be read: {error}. {remedy}") from error
    with file:
        yield Part(file, place=place, remedy=remedy)


def _verified_footer(file: pa.NativeFile) -> list[str] | None:
    """Verify the footer before it is parsed; return the checksums of the columns, or None if there are none."""
    size = file.size()
    tail = _read(file, max(size - _TAIL_BYTES, 0), _TAIL_BYTES)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length > size - _TAIL_BYTES:
        raise ValueError("it is not a complete Parquet file")
    footer = _read(file, size - _TAIL_BYTES - length, length)
    if (marker := footer.rfind(_MARKER)) < 0:
        return None
    place = marker + len(_MARKER)
    if footer[place : place + _DIGITS].decode("ascii", "replace") != _footer_digest(footer, place):
        raise ValueError("the checksum of its footer does not match")
    # Parts of earlier versions have fewer columns. The text of the metadata ends with the digits.
    most = footer[place + _DIGITS : place + _DIGITS * (1 + len(EVENTS.names))]
    digits = most[: len(most) - len(most.lstrip(b"0123456789abcdef"))].decode("ascii")
    return [digits[start : start + _DIGITS] for start in range(0, len(digits), _DIGITS)]


def _footer_digest(footer: bytes, place: int) -> str:
    """Return the checksum of a footer without the digits at `place`, which hold the checksum."""
    return hashlib.sha256(footer[:place] + footer[place + _DIGITS :]).hexdigest()[:_DIGITS]


def _column_digest(file: pa.NativeFile, metadata: pq.FileMetaData, column: int) -> str:
    """Return the checksum of a column as it is stored: headers, dictionaries and pages of all row groups."""
    digest = hashlib.sha256()
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(column)
        first = chunk.dictionary_page_offset
        start = chunk.data_page_offset if first is None else min(first, chunk.data_page_offset)
        digest.update(_read(file, start, chunk.total_compressed_size))
    return digest.hexdigest()[:_DIGITS]


def _read(file: pa.NativeFile, start: int, length: int) -> bytes:
    file.seek(start)
    content = file.read(length)
    if len(content) != length:
        raise ValueError("it is truncated")
    return content


def _checked(table: pa.Table) -> pa.Table:
    """Return the table with the types of the schema; raise ValueError for the first column that violates it."""
    if table.column_names != EVENTS.names:
        wrong = sorted(set(table.column_names) ^ set(EVENTS.names)) or "their order"
        raise ValueError(f"table must have the columns of EVENTS, they differ in {wrong}")
    table = table.cast(EVENTS)
    for name in MEASURES:
        infinite = table[name].filter(pc.invert(pc.is_finite(table[name])))
        if len(infinite):
            raise ValueError(f"{name} must be finite or null, got {infinite[0].as_py()}")
    return table
