"""Statistics and traces from Python values, files and scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from tests.support import raises_code

WORLD = sim.make_world("rectangle", rows=1, cols=4, width_km=4, height_km=1)
FRAME = pd.DataFrame({"user": ["a", "b", "a", "b"], "time_s": [0, 5, 10, 15], "cell": [0, 2, 1, 3]})


@pytest.mark.parametrize(
    "traces",
    [
        FRAME,
        [[0, 1], [2, 3]],
        [np.array([0, 1]), np.array([2, 3])],
        [sim.Trace("a", np.array([0, 10]), np.array([0, 1])), sim.Trace("b", np.array([5, 15]), np.array([2, 3]))],
    ],
)
def test_transitions_never_cross_users(traces: Any) -> None:
    counted = sim.make_statistics(traces, world=WORLD)
    assert counted.profile.tolist() == [0.25] * 4
    assert counted.n_transitions == 2
    assert counted.transition[0].tolist() == [0, 1, 0, 0]


def test_one_user() -> None:
    trace = sim.Trace("a", np.array([0, 1, 2]), np.array([0, 1, 0]))
    for traces in ([0, 1, 0], np.array([0, 1, 0]), FRAME.assign(cell=[0, 1, 0, 0]).iloc[:3][["cell"]], trace):
        assert sim.make_statistics(traces, world=WORLD).transition[1].tolist() == [1, 0, 0, 0]
    assert sim.make_statistics([], world=WORLD).profile.tolist() == [0.25] * 4


def test_restart_needs_times() -> None:
    assert sim.make_statistics(FRAME, world=WORLD, restart_s=7).n_transitions == 0
    with raises_code(sim.InputError, "times-missing"):
        sim.make_statistics([0, 1], world=WORLD, restart_s=86_400)


def test_frame_without_cells_is_refused() -> None:
    with raises_code(sim.InputError, "no-such-column"):
        sim.make_statistics(pd.DataFrame({"lat": [1.0]}), world=WORLD)


def test_cells_outside_the_world_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[0, 4\)"):
        sim.make_statistics([4], world=WORLD)


def test_traces_of_a_file(tmp_path: Path) -> None:
    FRAME.rename(columns={"cell": "place"}).to_csv(tmp_path / "t.csv", index=False)
    visits = sim.read_traces(tmp_path / "t.csv", world=WORLD, columns={"cell": "place"}, utc_offset_h=1)
    assert visits["cell"].tolist() == [0, 1, 2, 3]
    assert visits["time_s"].tolist() == [3600, 3610, 3605, 3615]
    with pytest.raises(sim.InputError, match=r"none\.csv"):
        sim.read_traces(tmp_path / "none.csv", world=WORLD)


def test_traces_of_a_scenario_differ_by_replication() -> None:
    scenario = sim.make_scenario(users={"count": 2, "queries": 9, "mobility": "favourites"}, lppms=["SP-Exp"])
    first, again, second = (sim.scenario_traces(scenario, replication=number) for number in (0, 0, 1))
    pd.testing.assert_frame_equal(first, again)
    assert first["cell"].tolist() != second["cell"].tolist()
    assert first["index"].tolist() == [*range(1, 10), *range(1, 10)]


def test_traces_of_several_people_are_pooled() -> None:
    assert sim.make_statistics([[0, 1], [1, 2]], world=WORLD).pooled
    assert not sim.make_statistics([0, 1], world=WORLD).pooled
    assert not sim.make_statistics([], world=WORLD).pooled
