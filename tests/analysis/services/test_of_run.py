"""Losses of services in runs: against direct computations from the event log, in blocks of users, and their limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from sim.analysis import user_blocks
from sim.analysis.answers.excess_risk import wilson
from sim.analysis.result import Result
from sim.analysis.services import reported
from sim.analysis.services.reported import losses_of
from sim.analysis.services.table import ServiceLosses
from sim.analysis.statistics import NONE, OWN_VALUES
from sim.errors import InputError
from sim.interfaces import FloatArray
from sim.lppm.outputs import CellsOrNothing, Places, Points, Sets
from sim.scenario.models import Scenario
from sim.storage.errors import NotApplicable, RequestError, RunError
from sim.world import Grid
from sim.world.services.nearest_points import NearestPoints
from tests.analysis.blocks import cut
from tests.support import raises_code

RNG = np.random.default_rng(3)
CAFES = RNG.uniform(0, 5, (15, 2)).round(3)
K = 4
KM = {"x_km": "x", "y_km": "y"}
NEAREST = {"kind": "nearest_points", "file": "cafes.csv", "columns": KM, "k": K}
TRAVEL = {"kind": "extra_travel", "file": "cafes.csv", "columns": KM}
SCENARIO: dict[str, Any] = {
    "name": "services",
    "seed": 5,
    "replications": 2,
    "world": {
        "grid": {"kind": "rectangle", "rows": 8, "cols": 8, "width_km": 5.0, "height_km": 5.0},
        "roads": {"kind": "lattice", "spacing_km": 0.7},
        "services": {"cafes": NEAREST, "way": TRAVEL},
    },
    "users": {"count": 7, "queries": 12, "mobility": {"kind": "favourites", "places": 4}},
    "training": {"others": {"kind": "others", "count": 8, "queries": 30}},
    "lppms": [
        {"kind": "SP-Exp", "design": {"epsilon_per_km": 2}},
        {"kind": "PL", "name": "noise", "design": {"epsilon_per_km": 3, "discretise": False}},
        {"kind": "Dummies", "name": "dummies"},
        {"kind": "Drop", "name": "drop", "design": {"drop_probability": 0.4}},
        {"kind": "SP-Cloak", "name": "cloak"},
        "identity",
    ],
    "attacks": ["sporadic", "face-value"],
    "record": {"expected": False, "snapshots": []},
}


def run(folder: Path, **changes: Any) -> Result:
    (folder / "cafes.csv").write_text("x,y\n" + "\n".join(f"{x},{y}" for x, y in CAFES.tolist()) + "\n")
    scenario = Scenario.model_validate(SCENARIO | changes).at(folder)
    return Result.open(sim.run(scenario, out=folder / "run", figures=False).path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run(tmp_path_factory.mktemp("services"))


@pytest.fixture(scope="module")
def losses(whole: Result) -> ServiceLosses:
    return whole.services()


def row_of(losses: ServiceLosses, service: str, lppm: str, *, shown: bool = False) -> pd.Series[Any]:
    table = losses.shown if shown else losses.table
    rows = table[(table["service"] == service) & (table["lppm"] == lppm)]
    assert len(rows) == 1
    return rows.iloc[0]


def nearest(at: FloatArray) -> set[int]:
    """Return the K nearest cafes of a position."""
    return set(np.hypot(*(CAFES - at).T).argsort(kind="stable")[:K].tolist())


def positions(whole: Result, lppm: str) -> tuple[pd.DataFrame, list[FloatArray | None]]:
    """Return the queries under an LPPM and the position of each report, None without one."""
    log = whole.events()
    own = log[(log["lppm"] == lppm) & (log["attack"] == "sporadic")]
    grid, space = whole.manifest.worlds[0].restore_locations(), whole.output_space(lppm)
    centres = np.column_stack([grid.x_km, grid.y_km])

    def position(output: Any) -> FloatArray | None:
        if pd.isna(output) or int(output) == space.nothing:
            return None
        if isinstance(space, Points | Places):
            return np.array(space.place_km(int(output)))
        return np.asarray(centres[space.shown_at(int(output))])

    return own.assign(true=[centres[cell] for cell in own["cell"]]), [position(output) for output in own["output"]]


@pytest.mark.parametrize("lppm", ["SP-Exp", "noise", "drop", "cloak", "identity"])
def test_missing_cafes_as_counted_in_the_log(whole: Result, losses: ServiceLosses, lppm: str) -> None:
    queries, reports = positions(whole, lppm)
    own = [
        1.0 if report is None else 1 - len(nearest(true) & nearest(report)) / K
        for true, report in zip(queries["true"], reports, strict=True)
    ]
    queries = queries.assign(loss=own, changed=np.array(own) > 0)
    users = queries.groupby(["user", "replication"])[["loss", "changed"]].mean()
    row = row_of(losses, "cafes", lppm)
    by_user = users.groupby("user").mean()
    assert row["loss"] == pytest.approx(by_user["loss"].mean())
    assert row["changed"] == pytest.approx(by_user["changed"].mean())
    ever = (users["changed"] > 0).groupby("user").mean().mean()
    mostly = (users["changed"] > 0.5).groupby("user").mean().mean()
    assert row["users_ever"] == pytest.approx(ever)
    assert row["users_mostly"] == pytest.approx(mostly)
    assert row["users_ever_high"] == pytest.approx(wilson(7 * ever, 7).high)
    assert row["unanswered"] == pytest.approx(np.mean([report is None for report in reports]))
    assert (row["users"], row["queries"], row["replications"]) == (7, 7 * 12 * 2, 2)


def test_planted_fault_is_found(whole: Result, losses: ServiceLosses, monkeypatch: pytest.MonkeyPatch) -> None:
    """If points are taken for the centres of their cells, the comparison with the log fails."""
    for space in ("Points", "Places"):
        monkeypatch.setattr(reported, space, type("Other", (), {}))
    centred = Result.open(whole.path).services()
    assert row_of(centred, "cafes", "noise")["loss"] != row_of(losses, "cafes", "noise")["loss"]


def test_a_true_report_costs_nothing(losses: ServiceLosses) -> None:
    """Among dummies is the true cell, whose answer the user keeps."""
    own = losses.table[losses.table["lppm"].isin(["identity", "dummies"])]
    assert len(own) == 4
    assert not own[["loss", "changed", "users_ever", "users_mostly", "unanswered"]].any(axis=None)


def test_queries_without_an_answer(losses: ServiceLosses) -> None:
    row = row_of(losses, "way", "drop")
    assert (row["loss"], row["unit"]) == (0, "km")
    assert row["changed"] == pytest.approx(row["unanswered"])
    notes = " ".join(losses.notes)
    assert "a loss of 1 (cafes)" in notes
    assert "no loss (way)" in notes


ON_GRID = {name: SCENARIO["world"][name] for name in ("grid", "roads")}
ON_POINTS = {"locations": {"kind": "points", "file": "stops.csv", "columns": KM}}
STOPS = np.vstack([[[0, 0], [5, 5]], RNG.uniform(0, 5, (20, 2)).round(3)])


@pytest.mark.parametrize(
    ("world", "service"),
    [(ON_GRID, NEAREST), (ON_GRID, TRAVEL), (ON_POINTS, NEAREST)],
    ids=["points missing", "extra travel", "points missing at stops"],
)
def test_recorded_quality_loss_is_that_of_the_service(
    tmp_path: Path, world: dict[str, Any], service: dict[str, Any]
) -> None:
    """Two ways to the same number: a run whose quality distance is a service records its loss."""
    np.savetxt(tmp_path / "stops.csv", STOPS, fmt="%.3f", delimiter=",", header="x,y", comments="")
    distance = {"kind": "service", "service": service, "km_per_unit": 2.0}
    lppms = [{"kind": "Exp", "design": {"epsilon_per_km": 0.5}}]
    world = world | {"quality_distance": distance, "services": {"one": service}}
    result = run(tmp_path, world=world, lppms=lppms, attacks=["sporadic"])
    recorded_km = result.events()["quality_loss_km"].mean()
    assert recorded_km > 0
    assert 2 * row_of(result.services(), "one", "Exp")["loss"] == pytest.approx(recorded_km)


def test_in_blocks_of_users(
    whole: Result, losses: ServiceLosses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_blocks, "MOST_ROWS", 1)
    monkeypatch.setattr(user_blocks, "BLOCK_ROWS", 1)
    blocks = cut(whole, tmp_path / "cut", [0, 1, 5]).services()
    pd.testing.assert_frame_equal(blocks.table, losses.table, rtol=1e-9)
    pd.testing.assert_frame_equal(blocks.shown, losses.shown, rtol=1e-9)


def test_any_run_can_be_asked(tmp_path: Path, whole: Result, losses: ServiceLosses) -> None:
    """A run whose scenario names no service gives the same numbers, and its digest is that of before services."""
    world = {key: value for key, value in SCENARIO["world"].items() if key != "services"}
    other = run(tmp_path, world=world)
    with raises_code(RequestError, "no-services"):
        other.services()
    table = other.services({"cafes": NEAREST, "way": TRAVEL}, folder=tmp_path)
    pd.testing.assert_frame_equal(table.table, losses.table)
    assert "services" not in other.manifest.recorded_scenario["world"]
    assert "services" in whole.manifest.recorded_scenario["world"]
    with raises_code(InputError, "out-of-range"):
        other.services({"cafes": NEAREST | {"k": 16}}, folder=tmp_path)
    with raises_code(InputError, "unknown-key"):
        other.services({"cafes": NEAREST | {"kk": 16}}, folder=tmp_path)


def test_swept_services_and_changed_roads(tmp_path: Path) -> None:
    region = {"kind": "region", "rows": 8, "cols": 8, "south": 37.0, "north": 37.045, "west": -122.056, "east": -122}
    roads = {"kind": "csv", "nodes": "nodes.csv", "edges": "edges.csv"}
    (tmp_path / "nodes.csv").write_text("osmid,lat,lon\n0,37.001,-122.05\n1,37.002,-122.002\n2,37.04,-122.03\n")
    edges = ["u,v,length_m", "0,1,4800", "1,0,4800", "1,2,5000", "2,1,5000", "0,2,6000", "2,0,6000"]
    (tmp_path / "edges.csv").write_text("\n".join(edges) + "\n")
    result = run(
        tmp_path,
        replications=1,
        world=SCENARIO["world"] | {"grid": region, "roads": roads},
        users={"count": 3, "queries": 4, "mobility": {"kind": "favourites"}},
        lppms=[{"kind": "PL", "name": "noise"}],
        attacks=[],
        sweep={"world.services.cafes.k": [1, 6]},
    )
    table = result.services().table
    assert table["point"].tolist() == [0, 1, 0, 1]
    multiples = table.loc[table["service"] == "cafes", "loss"].to_numpy() * np.array([1, 6]) * 12
    np.testing.assert_allclose(multiples, multiples.round(), atol=1e-9)
    assert (multiples > 0).all()
    (tmp_path / "edges.csv").write_text("\n".join(edges[:5]) + "\n")
    with raises_code(RunError, "input-changed"):
        Result.open(result.path).services()
    nearest = Result.open(result.path).services({"cafes": NEAREST}, folder=tmp_path).table
    assert nearest["loss"].gt(0).any()
    (tmp_path / "edges.csv").write_text("\n".join(edges) + "\n")
    (tmp_path / "cafes.csv").write_text("x,y\n1,1\n")
    with raises_code(RunError, "input-changed"):
        Result.open(result.path).services()


def test_few_users_have_their_range(tmp_path: Path) -> None:
    result = run(tmp_path, users=SCENARIO["users"] | {"count": 3}, lppms=["SP-Exp"], replications=1)
    losses = result.services()
    row, raw = (row_of(losses, "cafes", "SP-Exp", shown=shown) for shown in (True, False))
    queries, reports = positions(result, "SP-Exp")
    own = [1 - len(nearest(t) & nearest(r)) / K for t, r in zip(queries["true"], reports, strict=True) if r is not None]
    by_user = pd.Series(own).groupby(queries["user"].to_numpy()).mean()
    assert row["spread"] == OWN_VALUES
    assert (row["loss_low"], row["loss_high"]) == (pytest.approx(by_user.min()), pytest.approx(by_user.max()))
    assert raw["loss_high"] - raw["loss"] == pytest.approx(4.302653 * by_user.std() / 3**0.5, rel=1e-6)
    (tmp_path / "alone").mkdir()
    alone = run(tmp_path / "alone", users=SCENARIO["users"] | {"count": 1}, replications=1)
    assert row_of(alone.services(), "cafes", "SP-Exp", shown=True)["spread"] == NONE


def test_a_summary_has_no_cells(tmp_path: Path) -> None:
    result = run(tmp_path, record={"log": "summary"}, lppms=["SP-Exp"])
    with raises_code(NotApplicable, "needs-query-log"):
        result.services()


# Single queries --------------------------------------------------------------------------------------------------


GRID = Grid.rectangle(rows=1, cols=4, width_km=4.0, height_km=1.0)


@pytest.fixture
def service() -> NearestPoints:
    """Return cafes at the centres of the cells, of which the nearest is asked for."""
    return NearestPoints(GRID, x_km=GRID.x_km, y_km=GRID.y_km, k=1)


def test_the_best_of_several_answers_counts(service: NearestPoints) -> None:
    sets = Sets(n_cells=4, size=2)
    outputs = np.array([sets.output([1, 3]), sets.output([2, 3])])
    loss, changed, answered = losses_of(service, sets, np.array([1, 1]), outputs)
    assert (loss.tolist(), changed.tolist(), answered.tolist()) == ([0, 1], [False, True], [True, True])


@pytest.mark.parametrize("make", [lambda: Points(GRID), lambda: Places(GRID, (0.9, 9.0), (0.5, 0.5))])
def test_points_are_exact_positions(service: NearestPoints, make: Callable[[], Any]) -> None:
    space = make()
    outputs = np.array([space.output(0.9, 0.5), space.output(9.0, 0.5)] if isinstance(space, Points) else [0, 1])
    assert losses_of(service, space, np.array([0, 3]), outputs).loss.tolist() == [0, 0]
    assert losses_of(service, space, np.array([1, 1]), outputs).loss.tolist() == [1, 1]


def test_no_query_has_an_answer(service: NearestPoints) -> None:
    nothing = losses_of(service, CellsOrNothing(4), np.array([0, 1]), np.array([4, -1]))
    assert (nothing.loss.tolist(), nothing.changed.tolist(), nothing.answered.tolist()) == (
        [1, 1],
        [True] * 2,
        [False] * 2,
    )
