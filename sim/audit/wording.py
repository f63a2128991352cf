"""Mechanisms and parameters in words."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sim.audit.cell_displacement import EAST, NORTH
from sim.audit.grid_exponential import GridExponentialFit
from sim.audit.hypothesis import Estimate, Fit
from sim.audit.lattice import Lattice
from sim.audit.noise import NoiseFit
from sim.audit.selection import Finding

_KINDS = {
    "identity": "the true position",
    "snapping": "snapping to a grid",
    "regions": "one report for each region of positions (cloaking, or cells that do not form a grid)",
    "fixed_place": "the same place always",
    "uniform_region": "a uniform place, whatever the true position",
    "planar_laplace": "planar Laplace noise",
    "gaussian": "Gaussian noise",
    "uniform_disc": "uniform noise in a disc",
    "uniform_square": "uniform noise in a square",
    "uniform_distance": "noise at a uniform distance in a uniform direction",
    "exponential_distance": "noise at an exponential distance in a uniform direction",
    "laplace_by_axis": "independent Laplace noise on each axis",
    "exponential_on_grid": "exponential noise between the cells of a grid (exponential or planar geometric mechanism)",
    "location_hiding": "location hiding: the true place, or a uniform other one",
    "coin": "a coin: the true place, or one fixed place",
    "constant_offset": "an offset that is constant for each user",
    "drifting_offset": "an offset that drifts slowly for each user",
    "memoised_by_time": "for some time",
    "memoised_by_place": "at the same place",
    "zone": "no reports in a zone of each user",
    "zone_moved": "the true position, but another one in a zone of each user",
    "dropping": "reports dropped at random",
    "unknown": "none of the known mechanisms",
}

_PARAMETERS = {
    "scale_m": "scale",
    "epsilon_per_km": "epsilon",
    "sigma_m": "standard deviation of each axis",
    "radius_m": "radius",
    "median_radius_m": "median radius (differs between users)",
    "half_side_m": "half of the side",
    "step_lat_deg": "grid step, latitude",
    "step_lat_m": "grid step, north",
    "step_lon_deg": "grid step, longitude",
    "step_lon_m": "grid step, east",
    "origin_lat_deg": "grid origin, latitude",
    "origin_lon_deg": "grid origin, longitude",
    "origin_lon_scaled_deg": "grid origin, longitude times cosine of latitude",
    "line_lat_deg": "grid line near the data, latitude",
    "line_lon_deg": "grid line near the data, longitude",
    "line_lon_scaled_deg": "grid line near the data, longitude times cosine of latitude",
    "displacement_north_m": "displacement of the reports from the centres of their cells, north",
    "displacement_east_m": "displacement of the reports from the centres of their cells, east",
    "reveal_probability": "probability of the true place",
    "drop_probability": "probability of no report",
    "mean_length_m": "mean length of the offset",
    "sd_m": "standard deviation of the offset on each axis",
    "drift_m": "change of the offset in an hour (standard deviation)",
    "time_constant_h": "time constant of the offset",
    "independent_noise_m": "independent noise on each axis",
    "lifetime_s": "time for which a report is repeated",
    "tile_degrees": "side of the tile of a place",
    "tile_m": "side of the tile of a place (0: exactly the same position)",
    "near_m": "distance within which an earlier report is repeated",
    "predicted_share": "share of rows that the rule predicts",
    "draws": "independent draws",
    "regions": "regions in use",
    "median_diameter_m": "median diameter of a region",
    "zones": "zones",
    "centre_lat": "centre, latitude",
    "centre_lon": "centre, longitude",
    "place_lat": "place, latitude",
    "place_lon": "place, longitude",
}

_MOST_DECIMALS = 9
_LEAST_SHOWN_M = 0.5
_NARROW = 1e-3
"""Relative width of an interval below which the conclusion does not show it."""


def kind_in_words(kind: str) -> str:
    """Return a kind in words.

    >>> kind_in_words("gaussian+snapping")
    'Gaussian noise, with snapping to a grid'
    >>> kind_in_words("memoised_by_place+planar_laplace")
    'planar Laplace noise, sent again at the same place'
    """
    first, plus, rest = kind.partition("+")
    if first == "identity" and plus:
        return f"sometimes the true position, otherwise {kind_in_words(rest)}"
    if first.startswith("memoised_by_") and plus:
        return f"{kind_in_words(rest)}, sent again {_KINDS[first]}"
    if first in ("zone", "dropping") and plus:
        return f"{_KINDS[first]}, otherwise {kind_in_words(rest)}"
    return ", with ".join(_KINDS.get(part, part.replace("_", " ")) for part in kind.split("+"))


def hypothesis_in_words(fit: Fit) -> str:
    """Return a fitted hypothesis in words, with the variant if several have the same kind."""
    words = kind_in_words(fit.kind)
    if isinstance(fit, NoiseFit) and fit.from_cell:
        return f"{words} (before and after the noise)"
    if isinstance(fit, GridExponentialFit):
        return f"{words}, {fit.metric.capitalize()} distance, {fit.border} at the border"
    return words


def parameter_in_words(name: str) -> str:
    """Return the name of a parameter in words."""
    return _PARAMETERS.get(name, name.replace("_", " "))


def number(value: float, unit: str = "") -> str:
    """Return a number with four significant digits and its unit; positions in degrees have more.

    >>> number(1234.56, "m"), number(0.018018018, "degrees"), number(math.inf, "h")
    ('1,235 m', '0.018018 degrees', 'unbounded')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "unbounded"
    digits = f"{value:.6f}".rstrip("0").rstrip(".") if unit == "degrees" else f"{value:,.4g}"
    if unit != "degrees" and 1000 <= abs(value) < 1e7:
        digits = f"{value:,.0f}"
    return f"{digits} {unit}".strip()


def value(estimate: Estimate) -> str:
    """Return an estimate with its unit, and enough digits for its interval.

    >>> one = Estimate("step_lat_m", 1000.0034, 999.9981, 1000.0063, "m")
    >>> value(one), interval(one)
    ('1,000.0034 m', '999.9981 m to 1,000.0063 m')
    """
    return _with_digits_of(estimate, estimate.value)


def interval(estimate: Estimate) -> str:
    """Return the interval of an estimate; a dash if there is none, and "exact" for a count or an equal interval."""
    if math.isnan(estimate.low):
        return "–"
    if estimate.low == estimate.high:
        return "exact"
    low, high = (_with_digits_of(estimate, bound) for bound in (estimate.low, estimate.high))
    return f"{low} to {high}" if low != high else f"exact to {_MOST_DECIMALS} decimals"


def _with_digits_of(estimate: Estimate, value: float) -> str:
    """Return a number; with more decimals if its interval is narrower than the usual ones."""
    width = estimate.high - estimate.low
    usual = number(value, estimate.unit)
    if not (0 < width < math.inf) or width >= 1e-3 * abs(estimate.value):
        return usual
    decimals = min(max(math.ceil(-math.log10(width)) + 1, 0), _MOST_DECIMALS)
    digits = f"{value:,.{decimals}f}"
    return usual if len(digits) <= len(usual.split(" ")[0]) else f"{digits} {estimate.unit}".strip()


def conclusion(finding: Finding) -> str:
    """Return the result in a sentence."""
    sentence = f"The pairs show {kind_in_words(finding.kind)}."
    main = next(iter(finding.estimates), None)
    if main is not None and not finding.rejected:
        known = interval(main)
        narrow = known.startswith("exact") or main.high - main.low < _NARROW * abs(main.value)
        with_interval = "" if narrow or known == "–" else f" (95 % interval {known})"
        sentence += f" {parameter_in_words(main.name).capitalize()}: {number(main.value, main.unit)}{with_interval}."
    if not finding.rejected:
        sentence += _displacement_in_words({one.name: one.value for one in finding.estimates})
    if finding.rejected:
        sentence += (
            f" The nearest is {kind_in_words(finding.fit.kind)}, which the pairs reject; the empirical kernel is below."
        )
    return sentence


def _displacement_in_words(values: Mapping[str, float]) -> str:
    """Return where reports are in their cells, if not in the centres.

    >>> _displacement_in_words({"displacement_north_m": 400.2, "displacement_east_m": -250.0})
    ' The reports are displaced from the centres of their cells by 400 m to the north and 250 m to the west.'
    """
    if NORTH not in values:
        return ""
    north, east = values[NORTH], values[EAST]
    parts = [
        f"{abs(length):,.0f} m to the {ahead if length > 0 else back}"
        for length, ahead, back in ((north, "north", "south"), (east, "east", "west"))
        if abs(length) >= _LEAST_SHOWN_M
    ]
    return f" The reports are displaced from the centres of their cells by {' and '.join(parts)}."


def grid_in_words(lattice: Lattice) -> str:
    """Return how a grid could be written: decimals, bits of 1e-7 degrees, a power of two of a turn, or metres."""
    step = lattice.lat.step
    decimals = -math.log10(step)
    if abs(decimals - round(decimals)) < 1e-9:
        return f"{round(decimals)} decimals of a degree"
    bits = math.log2(step * 1e7)
    if abs(bits - round(bits)) < 1e-9:
        return f"{32 - round(bits)} precision bits of 1e-7 degrees (Meshtastic)"
    turn = math.log2(360 / step)
    if abs(turn - round(turn)) < 1e-9:
        return f"a turn divided by 2 to the power of {round(turn)} (geohash)"
    if lattice.metric:
        return f"a grid of {step * 111_000:,.0f} m with 111,000 m per degree"
    return "a regular grid in degrees"
