"""Centres of S2 cells, the hierarchy of cells on the sphere that Android uses (s2geometry.io).

A point is projected on one of six faces of a cube. The coordinates s and t on the face, in [0, 1], are halved once per
level. Cells of one level differ in area by a factor of 2.1 at most, thanks to the quadratic transform between s, t and
the coordinates u, v of the projection.
"""

from __future__ import annotations

import numpy as np

from sim.interfaces import FloatArray, IntArray
from sim.world.locations import EARTH_RADIUS_KM

_AXIS = np.array([0, 1, 2, 0, 1, 2])
_SIGN = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
# Along u and v on each face: the axis of the coordinate and its sign, for example u = y / x on face 0.
_U_AXIS, _U_SIGN = np.array([1, 0, 0, 2, 2, 1]), np.array([1.0, -1.0, -1.0, -1.0, -1.0, 1.0])
_V_AXIS, _V_SIGN = np.array([2, 2, 1, 1, 0, 0]), np.array([1.0, 1.0, -1.0, -1.0, 1.0, 1.0])


def s2_centres(lat: FloatArray, lon: FloatArray, level: IntArray | int) -> tuple[FloatArray, FloatArray]:
    """Return the centres in degrees of the S2 cells of a level, in [0, 30], that contain some positions.

    The example is the test vector of Android's `LocationFudgerTest`.

    >>> lat, lon = s2_centres(np.array([40.758896]), np.array([-73.98513]), 1)
    >>> lat.round(9).tolist(), lon.round(9).tolist()
    ([21.037511025], [-67.380135052])
    """
    cells = 2.0 ** np.asarray(level)
    face, u, v = _on_face(lat, lon)
    s, t = ((np.floor(np.clip(_st(uv), 0.0, 1 - 1e-15) * cells) + 0.5) / cells for uv in (u, v))
    return _on_sphere(face, _uv(s), _uv(t))


def mean_area_km2(level: int) -> float:
    """Return the mean area of the S2 cells of a level.

    >>> round(mean_area_km2(12) ** 0.5, 2)
    2.25
    """
    return 4 * np.pi * EARTH_RADIUS_KM**2 / (6 * 4.0**level)


def _on_face(lat: FloatArray, lon: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the face of the cube and the coordinates u and v, in [-1, 1], of positions in degrees."""
    north, east = np.radians(lat), np.radians(lon)
    xyz = np.stack([np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)])
    axis = np.abs(xyz).argmax(axis=0)
    depth = np.take_along_axis(xyz, axis[None], axis=0)[0]
    face = np.where(depth < 0, axis + 3, axis)
    u, v = (
        sign[face] * np.take_along_axis(xyz, across[face][None], axis=0)[0] / np.abs(depth)
        for across, sign in ((_U_AXIS, _U_SIGN), (_V_AXIS, _V_SIGN))
    )
    return face, u, v


def _on_sphere(face: IntArray, u: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the latitudes and longitudes in degrees of points on the faces of the cube."""
    xyz = np.zeros((3, *np.shape(face)))
    for axis, value in (
        (_AXIS[face], _SIGN[face]),
        (_U_AXIS[face], _U_SIGN[face] * u),
        (_V_AXIS[face], _V_SIGN[face] * v),
    ):
        np.put_along_axis(xyz, axis[None], np.broadcast_to(value, np.shape(face))[None], axis=0)
    return np.degrees(np.arctan2(xyz[2], np.hypot(xyz[0], xyz[1]))), np.degrees(np.arctan2(xyz[1], xyz[0]))


def _st(uv: FloatArray) -> FloatArray:
    """Return s or t, in [0, 1], of u or v."""
    root = np.sqrt(1 + 3 * np.abs(uv)) / 2
    return np.asarray(np.where(uv >= 0, root, 1 - root))


def _uv(st: FloatArray) -> FloatArray:
    """Return u or v, in [-1, 1], of s or t."""
    away = np.maximum(st, 1 - st)
    return np.asarray(np.where(st >= 0.5, 1.0, -1.0) * (4 * away**2 - 1) / 3)
