"""Secrets and solutions of mechanisms as JSON, exactly and without running code."""

from __future__ import annotations

import base64
import zlib
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.errors import InputError
from sim.interfaces import FloatArray


def encode(value: Any) -> Any:
    """Return a value as JSON: numbers, text, bytes, tuples, lists, mappings, arrays, in any nesting.

    A named tuple becomes one of another class with the same fields, so that no class is imported when it is decoded.

    >>> decode(encode({3: (1, 0.1, None), "a": [True]}))
    {3: (1, 0.1, None), 'a': [True]}
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return [encode(item) for item in value]
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {"named": [[name, encode(item)] for name, item in value._asdict().items()]}
    if isinstance(value, np.generic):
        return {"scalar": encode_array(np.asarray(value))}
    if kind in _ENCODE and (kind is not np.ndarray or value.dtype.kind in "biuf"):
        name, to_json = _ENCODE[kind]
        return {name: to_json(value)}
    raise InputError(
        f"the secret of the mechanism contains a {kind.__name__}, which the state cannot store; allowed are "
        "numbers, text, bytes, None, tuples, lists, mappings and arrays of numbers",
        code="secret-not-stored",
    )


def decode(data: Any) -> Any:
    """Return the value of `encode`."""
    if isinstance(data, list):
        return [decode(item) for item in data]
    if not isinstance(data, dict):
        return data
    ((name, content),) = data.items()
    return _DECODE[name](content)


def encode_array(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array of numbers as JSON."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {
        "type": plain.dtype.str,
        "shape": list(array.shape),
        "base64": base64.b64encode(plain.tobytes()).decode(),
    }


def decode_array(data: Any) -> NDArray[Any]:
    """Return the array of `encode_array`, which is writable."""
    array = np.frombuffer(base64.b64decode(data["base64"]), dtype=data["type"])
    return array.astype(array.dtype.newbyteorder("=")).reshape(data["shape"])


def pack_vector(vector: FloatArray) -> str:
    """Return a vector as compressed text: an estimated profile is mostly zeros.

    >>> unpack_vector(pack_vector(np.array([0.1, 0.0])), 2)
    array([0.1, 0. ])
    """
    return base64.b64encode(zlib.compress(vector.astype("<f8").tobytes(), level=1)).decode()


def unpack_vector(text: str, most: int) -> FloatArray:
    """Return the vector of `pack_vector`; raise `ValueError` if the text is none or has more than `most` numbers."""
    inflate = zlib.decompressobj()
    try:
        content = inflate.decompress(base64.b64decode(text, validate=True), 8 * most + 1)
    except zlib.error as error:
        raise ValueError(f"not compressed: {error}") from error
    if len(content) > 8 * most or not inflate.eof:
        raise ValueError(f"incomplete, or more than {most} numbers")
    return np.frombuffer(content, dtype="<f8").astype(np.float64)


def _named(fields: list[list[Any]]) -> Any:
    return namedtuple("Secret", [name for name, _ in fields])(*(decode(item) for _, item in fields))


_PLAIN = (type(None), bool, int, str)
_ENCODE: dict[type, tuple[str, Callable[[Any], Any]]] = {
    float: ("float", float.hex),
    tuple: ("tuple", lambda value: [encode(item) for item in value]),
    dict: ("dict", lambda value: [[encode(key), encode(item)] for key, item in value.items()]),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode()),
    np.ndarray: ("array", encode_array),
}
_DECODE: dict[str, Callable[[Any], Any]] = {
    "float": float.fromhex,
    "tuple": lambda content: tuple(decode(item) for item in content),
    "named": _named,
    "dict": lambda content: {decode(key): decode(item) for key, item in content},
    "bytes": base64.b64decode,
    "scalar": lambda content: decode_array(content)[()],
    "array": decode_array,
}
