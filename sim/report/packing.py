"""Arrays in few characters, for the data of the page."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.interfaces import IntArray

Packed = dict[str, str]


def pack(values: NDArray[Any]) -> Packed:
    """Pack an array as text: base64 of the zlib-compressed little-endian bytes."""
    kind = {"u": "u", "i": "i", "f": "f"}[values.dtype.kind] + str(8 * values.dtype.itemsize)
    raw = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes()
    return {"type": kind, "packed": base64.b64encode(zlib.compress(raw, 9)).decode()}


def pack_cells(values: IntArray, cells: int) -> Packed:
    """Pack cells; the number of cells stands for no cell."""
    return pack(values.astype(np.uint8 if cells < 2**8 else np.uint16 if cells < 2**16 else np.uint32))
