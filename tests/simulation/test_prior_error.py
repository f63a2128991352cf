"""Prior error P0: agrees with enumeration, and does not depend on the mechanism."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from sim.mobility.statistics import Statistics, statistics
from sim.mobility.traces import Trace
from sim.scenario.models import Scenario
from sim.simulation.prior_error import prior_errors_km
from sim.world.distance import Distance, MatrixDistance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid

GRID = Grid.rectangle(rows=2, cols=3, width_km=3.0, height_km=2.0)
DIRECTED = MatrixDistance(kind="directed", matrix_km=manhattan(GRID).matrix_km * (1 + np.triu(np.ones((6, 6)))))
TRACES = [
    Trace(name, np.arange(len(cells)), np.array(cells)) for name, cells in (("ann", [0, 0, 5, 5, 5]), ("bob", [2]))
]
OTHERS = Trace("others", np.arange(4), np.array([1, 1, 4, 3]))


def profile(cells: list[int]) -> list[float]:
    return [cells.count(cell) / len(cells) for cell in range(GRID.n_cells)]


def enumerated(cells: list[int], held: list[float], distance: Distance) -> float:
    """Return P0 by trying every guess."""
    km = distance.matrix_km.tolist()
    costs = [sum(weight * km[x][y] for x, weight in enumerate(held)) for y in range(GRID.n_cells)]
    guess = min(range(GRID.n_cells), key=lambda y: (round(costs[y], 9), y))
    total: float = sum(km[x][guess] for x in cells)
    return total / len(cells)


@pytest.mark.parametrize(
    "distance", [manhattan(GRID), euclidean(GRID), DIRECTED], ids=["manhattan", "euclid", "directed"]
)
def test_prior_errors_agree_with_enumeration(distance: Distance) -> None:
    def counted(trace: Trace) -> Statistics:
        return statistics([trace], n_cells=GRID.n_cells)

    own, others = {trace.user: counted(trace) for trace in TRACES}, counted(OTHERS)
    errors = prior_errors_km(TRACES, [own, {trace.user: others for trace in TRACES}, None], distance)
    for row, trace in zip(errors, TRACES, strict=True):
        cells = trace.cells.tolist()
        smallest = enumerated(cells, profile(cells), distance)
        assert row.tolist() == pytest.approx(
            [smallest, enumerated(cells, profile(OTHERS.cells.tolist()), distance), smallest]
        )
    assert errors[0, 1] > errors[0, 0] > 0 == errors[1, 0]


SCENARIO: dict[str, Any] = {
    "seed": 3,
    "replications": 2,
    "world": {"grid": {"kind": "rectangle", "rows": 3, "cols": 4, "width_km": 4.0, "height_km": 3.0}},
    "users": {"count": 4, "queries": 12, "mobility": {"kind": "favourites", "places": 3}},
    "training": {"others": {"kind": "others", "count": 5, "queries": 30}},
    "lppms": ["SP-Exp", "PEB-Exp", "identity"],
    "attacks": ["sporadic", "markov", "sporadic-trained", "face-value"],
    "sweep": {"lppms.*.design.epsilon_per_km": [0.5, 2.0]},
    "shifts": [{"kind": "new_places", "at_query": 7}],
}


HIDDEN = {"names": "hidden", "attacks": ["sporadic-trained", "identification", "face-value"]}


@pytest.mark.parametrize("record", [{}, {"log": "summary", "window": 3}], ids=["queries", "summary"])
@pytest.mark.parametrize("names", [{}, HIDDEN], ids=["known", "hidden"])
def test_recorded_prior_error_depends_on_user_and_attack_alone(
    tmp_path: Path, record: dict[str, Any], names: dict[str, Any]
) -> None:
    scenario = Scenario.model_validate(SCENARIO | names | {"record": record})
    result = sim.run(scenario, out=tmp_path / "run", figures=False)
    rows = result.events()
    rows = rows[rows["shift"].isna()]
    assert rows["prior_error_km"].notna().all()
    of_user = rows.groupby(["replication", "user", "attack"])["prior_error_km"]
    assert (of_user.nunique() == 1).all()
    table = of_user.first().unstack("attack")
    for name in {"sporadic", "markov", "identification"} & set(table):
        assert table[name].tolist() == table["face-value"].tolist(), "that of the test cells"
    assert (table["sporadic-trained"] >= table["face-value"]).all()
    assert (table["sporadic-trained"] > table["face-value"]).any()
    if not record:
        km = result.manifest.scenario.build_world().privacy_distance.matrix_km
        tested = rows[(rows["attack"] == "sporadic-trained") & (rows["lppm"] == "SP-Exp") & (rows["point"] == 0)]
        smallest = [km[cells].mean(axis=0).min() for _, cells in tested.groupby(["replication", "user"])["cell"]]
        assert table["face-value"].tolist() == pytest.approx(smallest)
