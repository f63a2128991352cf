"""Tables of a run as CSV."""

from __future__ import annotations

import hashlib
import io

import pandas as pd

from sim.storage.event_schema import TEXT_COLUMNS

_TEXT_COLUMNS = (*TEXT_COLUMNS, "lag")


def write_csv(frame: pd.DataFrame) -> bytes:
    """Return a table as CSV; numbers have the shortest form that parses to the same value."""
    text: str = frame.to_csv(None, index=False, lineterminator="\n")
    return text.encode()


def read_csv(content: bytes, checksum: str | None) -> pd.DataFrame:
    """Return a table of `write_csv`, with names as text; raises ValueError if the SHA-256 does not match."""
    if checksum is not None and hashlib.sha256(content).hexdigest() != checksum:
        raise ValueError("its checksum does not match")
    dtypes = dict.fromkeys(_TEXT_COLUMNS, "str")
    frame = pd.read_csv(io.BytesIO(content), dtype=dtypes, keep_default_na=False, na_values=[""])
    for column in frame.columns.intersection(list(_TEXT_COLUMNS)):
        frame[column] = frame[column].fillna("")
    return frame
