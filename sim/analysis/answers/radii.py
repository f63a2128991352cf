"""Radii of the answers."""

from __future__ import annotations

RADII_KM = (0.1, 0.5, 0.564, 2.0)
"""Default radii. 564 m is 1,850 ft (563.88 m), within which some laws call a location precise."""

SCALES_KM = (0.0, 0.1, 0.2, 0.5, 0.564, 1.0, 2.0, 5.0, 10.0)
"""Scales at which an adversary looks for the place with the most estimates or visits, whatever the radius asked for."""

_NAMES = {0.564: "564 m (1,850 ft)"}


def scales_within(radius_km: float) -> tuple[float, ...]:
    """Return the scales that are not larger than a radius; those of a larger radius contain them.

    >>> scales_within(0.3)
    (0.0, 0.1, 0.2)
    """
    return tuple(scale for scale in SCALES_KM if scale <= radius_km)


def radius_text(radius_km: float) -> str:
    """Return a radius in words.

    >>> radius_text(0.1), radius_text(0.564), radius_text(2.0)
    ('100 m', '564 m (1,850 ft)', '2 km')
    """
    metres = 1_000 * radius_km
    return _NAMES.get(radius_km, f"{metres:,.10g} m" if metres < 1_000 else f"{radius_km:,.10g} km")
