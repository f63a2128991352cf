"""Mechanisms of the round trip: simulated, audited blind, and compared with the truth."""

from __future__ import annotations

import math

import numpy as np

from sim.audit.displacement import Sample
from tests.audit.mechanisms import (
    Case,
    Release,
    constant_offset,
    decimals,
    design,
    disc,
    disc_distance,
    drifting_offset,
    fudger,
    gaussian,
    hiding,
    identity,
    in_turn,
    laplace,
    memoised_by_place,
    memoised_by_time,
    metric_grid,
    precision_bits,
    sometimes,
    truncated_decimals,
    zone,
)
from tests.audit.movement import runs

METRES_PER_DEGREE_OF_ANDROID = 111_000.0


def _mean_offset(sample: Sample) -> float:
    lengths = [sample.distance_m[sample.user == user].mean() for user in np.unique(sample.user)]
    return float(np.mean(lengths))


def _regions(sample: Sample) -> float:
    return float(len(np.unique(np.round(np.column_stack([sample.sent_lat, sample.sent_lon]), 7), axis=0)))


def _case(name: str, release: Release, kinds: str, parameter: str | None = None, truth: object = math.nan) -> Case:
    return Case(name, release, tuple(kinds.split("|")), parameter, truth)  # type: ignore[arg-type]


CASES = (
    _case("identity", identity, "identity"),
    _case("planar Laplace 200 m", laplace(200), "planar_laplace", "scale_m", 200),
    _case("Gaussian 150 m", gaussian(150), "gaussian", "sigma_m", 150),
    _case("uniform disc 400 m", disc(400), "uniform_disc", "radius_m", 400),
    _case("uniform distance 500 m", disc_distance(500), "uniform_distance", "radius_m", 500),
    _case("3 decimals", decimals(3), "snapping", "step_lat_deg", 1e-3),
    _case("2 decimals", decimals(2), "snapping", "step_lat_deg", 1e-2),
    _case("2 decimals, rounded down", truncated_decimals(2), "snapping", "step_lat_deg", 1e-2),
    _case("Meshtastic 13 bits", precision_bits(13), "snapping|regions", "step_lat_deg", 2**19 * 1e-7),
    _case("Meshtastic 16 bits", precision_bits(16), "snapping", "step_lat_deg", 2**16 * 1e-7),
    _case("metric grid 1 km (WebKit)", metric_grid(1000), "snapping", "step_lat_deg", 1000 / 111_000),
    _case("planar Laplace + 3 decimals", in_turn(laplace(200), decimals(3)), "planar_laplace+snapping", "scale_m", 200),
    _case("planar Laplace + 2 decimals", in_turn(laplace(200), decimals(2)), "planar_laplace+snapping", "scale_m", 200),
    _case("Gaussian + metric grid", in_turn(gaussian(500), metric_grid(1000)), "gaussian+snapping", "sigma_m", 500),
    _case("uniform disc + 3 decimals", in_turn(disc(500), decimals(3)), "uniform_disc+snapping", "radius_m", 500),
    _case("Android fudger", fudger(), "drifting_offset+snapping", "step_lat_deg", 2000 / METRES_PER_DEGREE_OF_ANDROID),
    _case("constant offset", constant_offset(300), "constant_offset", "mean_length_m", _mean_offset),
    _case("drifting offset, 24 h", drifting_offset(300, 24), "drifting_offset", "sd_m", 300),
    _case("zone, dropped", zone(800), "zone", "radius_m", 800),
    _case("zone, random centre", zone(1000, away_m=500), "zone", "radius_m", 1000),
    Case("zone, random centre, runs", zone(1000, away_m=500), ("zone",), "radius_m", 1000, runs),
    _case("zone, moved", zone(800, hidden=False), "zone_moved", "radius_m", 800),
    _case(
        "Location Guard: Laplace, cached 30 min",
        memoised_by_time(laplace(250), 1800),
        "memoised_by_time+planar_laplace",
        "scale_m",
        250,
    ),
    _case(
        "Laplace, fixed by place",
        memoised_by_place(laplace(250), 3),
        "memoised_by_place+planar_laplace",
        "scale_m",
        250,
    ),
    _case("location hiding in a square", hiding(0.4), "location_hiding", "reveal_probability", 0.4),
    _case("identity or Laplace", sometimes(0.3, laplace(200)), "identity+planar_laplace", "scale_m", 200),
    _case("design exponential", design("Exp", epsilon_per_km=1.0), "exponential_on_grid", "epsilon_per_km", 1.0),
    _case("design planar_geometric", design("PG", epsilon_per_km=1.5), "exponential_on_grid", "epsilon_per_km", 1.5),
    _case("design planar_laplace", design("PL", epsilon_per_km=2.0), "planar_laplace+snapping", "scale_m", 500),
    _case("design snapping", design("Snap", cells_per_side=2), "snapping", "step_lat_deg", 0.02),
    _case("design location_hiding", design("LH", reveal_probability=0.5), "location_hiding", "reveal_probability", 0.5),
    _case("design cloaking", design("SP-Cloak", k=10), "regions|snapping", "regions", _regions),
    _case("design dropping", design("Drop", drop_probability=0.3), "dropping+snapping", "drop_probability", 0.3),
    _case("design coin", design("SP-Coin", reveal_probability=0.4), "coin", "reveal_probability", 0.4),
    _case("design identity", design("identity"), "snapping", "step_lat_deg", 0.01),
)
"""Sending the centre of the cell is snapping for continuous positions, and so is a design that chooses between regions
of one size. If an axis has fewer than three cells in use, snapping cannot be distinguished from regions."""
