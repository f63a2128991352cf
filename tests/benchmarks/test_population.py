"""Cost of large populations: both kinds of users are simulated and measured."""

from __future__ import annotations

import pytest

from benchmarks.population import costs

pytestmark = pytest.mark.usefixtures("plain_kernels", "served")


@pytest.mark.parametrize("replay", [False, True])
def test_a_population_has_costs(replay: bool) -> None:
    measured = costs(3, replay=replay)
    assert measured.users == 3
    assert measured.query_s > 0
    assert 0 < measured.simulation_bytes <= measured.peak_bytes
    assert measured.row_bytes > 0
