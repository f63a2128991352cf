"""Radii of the answers."""

from __future__ import annotations

RADII_KM = (0.1, 0.5, 0.564, 2.0)
"""Default radii. 564 m is 1,850 ft (563.88 m), within which some laws call a location precise."""

_NAMES = {0.564: "564 m (1,850 ft)"}


def radius_text(radius_km: float) -> str:
    """Return a radius in words.

    >>> radius_text(0.1), radius_text(0.564), radius_text(2.0)
    ('100 m', '564 m (1,850 ft)', '2 km')
    """
    metres = 1_000 * radius_km
    return _NAMES.get(radius_km, f"{metres:,.10g} m" if metres < 1_000 else f"{radius_km:,.10g} km")
