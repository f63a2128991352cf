"""From positions in m on a plane to degrees: UTM, equirectangular projections, and planes at a given origin."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.errors import InputError
from sim.interfaces import FloatArray
from sim.world.locations import EARTH_RADIUS_KM

_RADIUS_M = 1000.0 * EARTH_RADIUS_KM
_A, _F = 6_378_137.0, 1 / 298.257_223_563  # WGS 84
_K0, _FALSE_EASTING_M, _FALSE_NORTHING_M = 0.9996, 500_000.0, 10_000_000.0
_EPSG = re.compile(r"EPSG:(?P<family>326|327|258)(?P<zone>\d\d)", re.IGNORECASE)
_DEGREES = ("EPSG:4326", "WGS84", "OGC:CRS84")
ACCEPTED = "EPSG:4326 (degrees), EPSG:32601 to 32660 and 32701 to 32760 (UTM), EPSG:25828 to 25838 (UTM, ETRS89)"

Inverse = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, slots=True)
class Plane:
    """A plane with its inverse projection."""

    name: str
    inverse: Inverse
    """Function from x and y in m to latitude and longitude."""
    offset_m: tuple[float, float] = (0.0, 0.0)
    """Added to projected positions to obtain x and y, as in `netOffset` of SUMO."""

    def to_degrees(self, x_m: FloatArray, y_m: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return latitudes and longitudes."""
        return self.inverse(x_m - self.offset_m[0], y_m - self.offset_m[1])


def degrees() -> Plane:
    """Return the plane of longitudes and latitudes."""
    return Plane("degrees", lambda x, y: (y, x))


def at_origin(lat: float, lon: float) -> Plane:
    """Return a plane in m east and north of an origin; distances are exact along its parallel and all meridians."""
    inverse = _equirectangular(math.cos(math.radians(lat)), lon, _RADIUS_M)
    south_m = math.radians(lat) * _RADIUS_M
    return Plane(f"origin {lat:g}, {lon:g}", lambda x, y: inverse(x, y + south_m))


def of_crs(text: str) -> Plane:
    """Return the plane of a coordinate reference system such as EPSG:32633."""
    if text.strip().upper() in _DEGREES:
        return degrees()
    match = _EPSG.fullmatch(text.strip())
    zone = int(match["zone"]) if match else 0
    if match is None or not 1 <= zone <= 60:
        raise InputError(
            f"unsupported coordinate reference system {text!r}, expected {ACCEPTED}: convert the positions first, for "
            "example with pyproj, or place the plane with --origin LAT,LON",
            code="unsupported-crs",
        )
    return Plane(text.upper(), utm(zone, south=match["family"] == "327"))


def of_proj(text: str, offset_m: tuple[float, float]) -> Plane | None:
    """Return the plane of a PROJ string with UTM or eqc, as SUMO stores it; None for another projection."""
    parts = (part[1:].partition("=") for part in text.split() if part.startswith("+"))
    fields = {name: value for name, _, value in parts}
    try:
        if fields.get("proj") == "utm":
            return Plane(text, utm(int(fields["zone"]), south="south" in fields), offset_m)
        if fields.get("proj") == "eqc":
            radius_m = float(fields.get("R", _A))
            cosine = math.cos(math.radians(float(fields.get("lat_ts", 0.0))))
            inverse = _equirectangular(cosine, float(fields.get("lon_0", 0.0)), radius_m)
            south_m = math.radians(float(fields.get("lat_0", 0.0))) * radius_m
            return Plane(text, lambda x, y: inverse(x, y + south_m), offset_m)
    except (KeyError, ValueError):
        return None
    return None


def _equirectangular(cosine: float, lon_0: float, radius_m: float) -> Inverse:
    def inverse(x_m: FloatArray, y_m: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.degrees(y_m / radius_m), lon_0 + np.degrees(x_m / (radius_m * cosine))

    return inverse


def utm(zone: int, *, south: bool) -> Inverse:
    """Return the inverse of Universal Transverse Mercator (Krüger 1912, series to the fourth order in n)."""
    if not 1 <= zone <= 60:
        raise ValueError(f"zone must be in [1, 60], got {zone}")
    n = _F / (2 - _F)
    radius_m = _A / (1 + n) * (1 + n**2 / 4 + n**4 / 64)
    beta = (
        n / 2 - 2 * n**2 / 3 + 37 * n**3 / 96 - n**4 / 360,
        n**2 / 48 + n**3 / 15 - 437 * n**4 / 1440,
        17 * n**3 / 480 - 37 * n**4 / 840,
        4397 * n**4 / 161_280,
    )
    delta = (
        2 * n - 2 * n**2 / 3 - 2 * n**3 + 116 * n**4 / 45,
        7 * n**2 / 3 - 8 * n**3 / 5 - 227 * n**4 / 45,
        56 * n**3 / 15 - 136 * n**4 / 35,
        4279 * n**4 / 630,
    )
    northing_m = _FALSE_NORTHING_M if south else 0.0

    def inverse(x_m: FloatArray, y_m: FloatArray) -> tuple[FloatArray, FloatArray]:
        xi = (y_m - northing_m) / (_K0 * radius_m)
        eta = (x_m - _FALSE_EASTING_M) / (_K0 * radius_m)
        xi_0, eta_0 = xi, eta
        for j, b in enumerate(beta, 1):
            xi_0 = xi_0 - b * np.sin(2 * j * xi) * np.cosh(2 * j * eta)
            eta_0 = eta_0 - b * np.cos(2 * j * xi) * np.sinh(2 * j * eta)
        chi = np.arcsin(np.sin(xi_0) / np.cosh(eta_0))
        lat = chi + sum(d * np.sin(2 * j * chi) for j, d in enumerate(delta, 1))
        lon = np.radians(6 * zone - 183) + np.arctan2(np.sinh(eta_0), np.cos(xi_0))
        return np.degrees(lat), np.degrees(lon)

    return inverse
