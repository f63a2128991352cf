"""Signs of bad input: exchanged files, placeholder positions, and times that do not match."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sim.audit.displacement import M_PER_DEGREE, SAME_PLACE_M, Sample
from sim.audit.lattice import find_lattice
from sim.audit.matching import Matching
from sim.interfaces import BoolArray, FloatArray

_ROUGHER = 2.0
"""Ratio of the steps of TRUE to those of SENT above which TRUE looks like the noisy one."""
_COARSER = 5.0
"""Ratio of the numbers of places above which TRUE looks like the snapped one."""
_FEWEST_STEPS = 30
_NEAR_S = 3600.0
_FAR_M = 1_000_000.0
_UNMATCHED = 0.2


def input_warnings(sample: Sample) -> Iterator[str]:
    """Yield the signs of placeholder positions and of wrong columns."""
    kept = sample.rows(sample.sent)
    columns = {"true": (sample.lat, sample.lon), "sent": (kept.sent_lat, kept.sent_lon)}
    for name, (lat, lon) in columns.items():
        if count := int(((lat == 0) & (lon == 0)).sum()):
            yield (
                f"{count:,} {name} positions are 0, 0, which often stands for a missing position: remove these rows, "
                "or leave sent positions empty."
            )
    far = kept.distance_m > _FAR_M
    far &= (kept.sent_lat != 0) | (kept.sent_lon != 0)
    if count := int(far.sum()):
        yield (
            f"{count:,} sent positions are more than {_FAR_M / 1000:,.0f} km from the true ones, up to "
            f"{kept.distance_m[far].max() / 1000:,.0f} km: check the columns and the matching."
        )


def unmatched_warning(matching: Matching) -> str:
    """Return a warning if many rows of both files have no partner: their times differ; otherwise an empty string."""
    true, sent = matching.without_report, matching.without_truth
    if true < _UNMATCHED * matching.true_rows or sent < _UNMATCHED * matching.sent_rows:
        return ""
    return (
        f"{true:,} of {matching.true_rows:,} true rows and {sent:,} of {matching.sent_rows:,} sent rows have no "
        "partner: their times differ. The share of dropped reports is then wrong. Write the time of the true position "
        "to both files, or use --match row."
    )


def exchange_warning(sample: Sample, *, timed: bool, noise: bool, one_file: bool) -> str:
    """Return a warning if TRUE looks like the output of a mechanism and SENT does not; otherwise an empty string.

    Continuous `noise` on recurrent places has more sent than true places too. It is not a sign of an exchange unless
    the true positions lie on a grid as coarse as the displacements.
    """
    names = ("lat/lon", "sent_lat/sent_lon") if one_file else ("TRUE", "SENT")
    reason = _exchange_reason(sample.rows(sample.sent), names, timed=timed, noise=noise)
    if not reason:
        return ""
    first = "lat and lon" if one_file else "The first file"
    return f"{' and '.join(names)} may be exchanged: {reason}. {first} must have the positions of the device."


def _exchange_reason(sample: Sample, names: tuple[str, str], *, timed: bool, noise: bool) -> str:
    true, sent = (_n_places(lat, lon) for lat, lon in _both(sample))
    if _COARSER * true < sent and not (noise and not _true_on_grid(sample)):
        return f"{names[0]} has {true:,} different places and {names[1]} {sent:,}"
    near = sample.follows & (np.diff(sample.time_s, prepend=0.0) < _NEAR_S) if timed else sample.follows
    steps = [_steps_m(lat, lon, near) for lat, lon in _both(sample)]
    moved = (steps[0] > SAME_PLACE_M) & (steps[1] > SAME_PLACE_M)
    if moved.sum() < _FEWEST_STEPS:
        return ""
    rough, smooth = (float(np.median(own[moved])) for own in steps)
    if rough > _ROUGHER * smooth:
        return (
            f"consecutive positions are {rough:,.0f} m apart in {names[0]} and {smooth:,.0f} m in {names[1]}, like "
            f"noise in {names[0]}"
        )
    return ""


def _true_on_grid(sample: Sample) -> bool:
    """Return whether the true positions lie on a grid whose cells are larger than the mean displacement."""
    swapped = replace(sample, lat=sample.sent_lat, lon=sample.sent_lon, sent_lat=sample.lat, sent_lon=sample.lon)
    lattice = find_lattice(swapped)
    if lattice is None:
        return False
    width, height = lattice.size_m(sample.lat)
    return math.sqrt(float(np.median(width) * np.median(height))) > float(sample.distance_m.mean())


def _both(sample: Sample) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    return (sample.lat, sample.lon), (sample.sent_lat, sample.sent_lon)


def _n_places(lat: FloatArray, lon: FloatArray) -> int:
    return len(np.unique(np.round(np.column_stack([lat, lon]), 7), axis=0))


def _steps_m(lat: FloatArray, lon: FloatArray, chosen: BoolArray) -> FloatArray:
    """Return the distance of chosen rows from the row before."""
    north = np.diff(lat, prepend=lat[:1]) * M_PER_DEGREE
    east = np.diff(lon, prepend=lon[:1]) * M_PER_DEGREE * np.cos(np.radians(lat))
    return np.hypot(north, east)[chosen]
