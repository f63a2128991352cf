"""Check of a parameter against its legal interval."""

from __future__ import annotations


def require(name: str, value: float, low: float, high: float, *, ends: str = "[]") -> None:
    """Raise ValueError unless the value lies in the interval; NaN is outside.

    >>> require("stay", 0.3, 0, 1)
    >>> require("spread_km", 0.0, 0, float("inf"), ends="()")
    Traceback (most recent call last):
    ...
    ValueError: spread_km must be in (0, inf), got 0.0
    """
    above = value >= low if ends[0] == "[" else value > low
    below = value <= high if ends[1] == "]" else value < high
    if not (above and below):
        raise ValueError(f"{name} must be in {ends[0]}{low}, {high}{ends[1]}, got {value}")
