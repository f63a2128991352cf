"""A constant displacement of snapped reports is found with an interval that contains it."""

from __future__ import annotations

import numpy as np
import pytest

from sim.audit.displacement import M_PER_DEGREE, Sample, metres_per_degree_east
from sim.audit.lattice import find_lattice
from sim.audit.selection import identify
from sim.audit.wording import conclusion

STEP = 0.01


def _snapped(north_m: float, east_m: float) -> Sample:
    """Return positions snapped to the centres of a grid and displaced, with six decimals."""
    rng = np.random.default_rng(8)
    user = np.repeat(np.arange(3), 150)
    lat, lon = rng.uniform(45.7, 45.8, user.size).round(6), rng.uniform(4.8, 4.9, user.size).round(6)
    row, col = ((np.floor(own / STEP) + 0.5) * STEP for own in (lat, lon))
    east = metres_per_degree_east(np.full(1, 45.75))
    sent = (row + north_m / M_PER_DEGREE).round(6), (col + east_m / east).round(6)
    return Sample(user, np.tile(60.0 * np.arange(150), 3), lat, lon, *sent)


@pytest.mark.parametrize(("north_m", "east_m"), [(400, -250), (1400, 0), (-60, 30), (470, -250)])
def test_displacement_after_snapping_is_stated(north_m: float, east_m: float) -> None:
    finding = identify(_snapped(north_m, east_m))
    assert finding.kind == "snapping"
    estimates = {one.name: one for one in finding.estimates}
    for name, true in (("displacement_north_m", north_m), ("displacement_east_m", east_m)):
        assert estimates[name].low <= true <= estimates[name].high
        assert estimates[name].low <= estimates[name].value <= estimates[name].high < estimates[name].low + 40
    assert "displaced from the centres" in conclusion(finding)


def test_centres_are_not_displaced() -> None:
    finding = identify(_snapped(0, 0))
    assert finding.kind == "snapping"
    assert not any(one.name.startswith("displacement") for one in finding.estimates)
    assert "displaced" not in conclusion(finding)


def test_cells_contain_the_true_positions_of_displaced_reports() -> None:
    sample = _snapped(470, 0)  # 0.42 steps, which must not be rounded to half a step
    lattice = find_lattice(sample)
    assert lattice is not None
    assert lattice.shift_lat == pytest.approx(-470 / M_PER_DEGREE / STEP, abs=0.02)
