"""Archives of arrays (.npz) with a checksum over all of their bytes.

Zip has checksums of contents, but none of names, sizes and methods. The archive's comment therefore holds the SHA-256
of all bytes before the digits. Archives of earlier versions have no comment and can still be read.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MARKER = b"lppm-sim sha256:"
_DIGITS = 64
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)
_END = b"PK\x05\x06"
_END_BYTES = 22
_NO_COMMENT = b"\0\0"


class DamagedArchive(Exception):
    """An archive that cannot be read."""


def packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of an archive of these arrays; the same arrays give the same bytes."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(arrays):
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=_FIXED_DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asarray(arrays[name]), allow_pickle=False)
            archive.writestr(entry, content.getvalue())
        archive.comment = _MARKER + b"0" * _DIGITS
    body = sink.getvalue()[:-_DIGITS]
    return body + hashlib.sha256(body).hexdigest().encode()


def verify(content: bytes) -> None:
    """Raise DamagedArchive if the checksum does not match; archives of earlier versions have none."""
    body, digits = content[:-_DIGITS], content[-_DIGITS:]
    if body.endswith(_MARKER):
        if hashlib.sha256(body).hexdigest().encode() != digits:
            raise DamagedArchive("its checksum does not match")
    # No single flipped bit turns the end of an archive with a comment into that of one without.
    elif not (content[-_END_BYTES:].startswith(_END) and content.endswith(_NO_COMMENT)):
        raise DamagedArchive("it is not a complete archive")


def unpacked(content: bytes, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of an archive, or those with the given names."""
    verify(content)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive if names is None or name in names}
    except Exception as error:  # zipfile, zlib and NumPy raise many types for damaged archives of earlier versions
        raise DamagedArchive(str(error) or type(error).__name__) from error
