"""Adaptation at equal loss before a shift: users, interpolation and ends of curves against query-by-query oracles."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from sim.analysis.adaptation import OF_USER, Adaptation, adaptation
from sim.interfaces import FloatArray
from sim.storage.errors import ChoiceNotApplicable, NotApplicable
from sim.storage.run_directory import RunDirectory
from tests.analysis.test_adaptation import MOVE, _user_metrics, queries, shift, write
from tests.support import done, raises_code, refused

LOSSES = (0.5, 1.0, 2.0)
FAR = [0, 24] * 100
"""Cells of a user who is half of the time far away; every constant guess is half that distance off on average."""


def swept(path: Path, frames: Sequence[pd.DataFrame], values: Sequence[float] = LOSSES, **paths: Any) -> RunDirectory:
    """Return a run with a sweep point for each value."""
    run = write(path, frames)
    name = "lppms.*.design.epsilon_per_km"
    run.write_csv("points.csv", pd.DataFrame({"point": range(len(values)), name: values, **paths}))
    return run


def constant(
    user: str, losses: Sequence[float], slope: float, *, cells: Sequence[int] | int = FAR, **same: Any
) -> list[pd.DataFrame]:
    """Return a user with the same loss at each query of a point; the error is `slope` times its square root."""
    frames = []
    for point, loss in enumerate(losses):
        rows = queries([slope * loss**0.5] * 200, [loss] * 200, user=user, point=point, **same)
        frames += [rows.assign(cell=cells), shift(101, user=user, point=point, **same)]
    return frames


def at(run: RunDirectory, loss_km: float, **options: Any) -> tuple[Adaptation, dict[Any, Any]]:
    adapted = adaptation(run, at_km=loss_km, **options)
    return adapted, {row["lppm"]: row for row in adapted.summary.to_dict("records")}


def test_each_user_has_the_loss_before_the_shift(tmp_path: Path) -> None:
    frames = [*constant("ann", LOSSES, 1.0), *constant("bob", (0.2, 1.4, 1.6), 2.0)]
    adapted, rows = at(swept(tmp_path, frames), 1.2)
    users = adapted.users.set_index("user")
    assert users["quality_loss_before_km"].tolist() == pytest.approx([1.2, 1.2])
    ann = (0.8 * 1.0 + 0.2 * 2**0.5) / 1.2
    bob = 2 * (0.2**0.5 / 6 + 5 / 6 * 1.4**0.5) / 1.2
    assert users["efficiency_before"].to_dict() == pytest.approx({"ann": ann, "bob": bob})
    assert rows["PEB"]["efficiency_before"] == pytest.approx((ann + bob) / 2)
    assert (rows["PEB"]["point"], rows["PEB"]["excluded"], rows["PEB"]["users"]) == (0, 0, 2)


def test_loss_after_the_shift_is_a_result(tmp_path: Path) -> None:
    frames = constant("ann", LOSSES, 1.0)
    for frame in frames:
        late = frame["index"] > 100
        frame.loc[late, "quality_loss_km"] = 3 * frame.loc[late, "quality_loss_km"]
    _, rows = at(swept(tmp_path, frames), 1.5)
    assert rows["PEB"]["quality_loss_before_km"] == pytest.approx(1.5)
    assert rows["PEB"]["quality_loss_after_km"] == pytest.approx(4.5)


@pytest.mark.parametrize(("loss", "ends"), [(0.5, (0, 0)), (2.0, (0, 0)), (2.1, (1, 0)), (0.4, (0, 1))])
def test_nothing_is_extrapolated(loss: float, ends: tuple[int, int], tmp_path: Path) -> None:
    _, rows = at(swept(tmp_path, constant("ann", LOSSES, 1.0)), loss)
    assert rows["PEB"]["quality_loss_before_km"] == pytest.approx(min(max(loss, 0.5), 2.0))
    assert (rows["PEB"]["at_largest"], rows["PEB"]["at_smallest"]) == ends


def test_users_are_those_whose_prior_error_before_the_shift_is_at_least_the_loss(tmp_path: Path) -> None:
    """The set depends on the cells before the shift only; a mechanism that fails for a user keeps the user."""
    distance = sim.Result.open(swept(tmp_path / "any", constant("ann", LOSSES, 1.0)).path).manifest
    world = distance.scenario.build_world().privacy_distance
    half = float(world.between_km(np.array([0]), 24)[0]) / 2
    still, moving = [0] * 100 + [0, 24] * 50, [0, 24] * 50 + [0] * 100
    frames = [
        frame
        for lppm, losses in (("PEB", (0.1, half + 1.0)), ("bad", (half + 1, half + 2)))
        for user, cells in (("still", still), ("moving", moving))
        for frame in constant(user, losses, 1.0, cells=cells, lppm=lppm)
    ]
    run = swept(tmp_path / "run", frames, (1.0, 2.0))
    adapted, rows = at(run, half)
    assert set(adapted.users["user"]) == {"moving"}
    assert {lppm: (row["users"], row["excluded"], row["at_smallest"]) for lppm, row in rows.items()} == {
        "PEB": (1, 1, 0),
        "bad": (1, 1, 1),
    }
    with raises_code(ChoiceNotApplicable, "window-too-long"):
        adaptation(run, at_km=half + 0.01)


def noisy(seed: int) -> dict[tuple[str, int, int, str], tuple[FloatArray, FloatArray]]:
    """Return errors and losses by mechanism, point, replication and user; points differ in their replications."""
    rng = np.random.default_rng(seed)
    made = {}
    for lppm, point, user in itertools.product(("PEB", "SP"), range(3), ("ann", "bob")):
        for replication in range(2 if point != 1 else 3):
            level = np.where(np.arange(120) < 50, 1.0, 0.5)
            made[lppm, point, replication, user] = (
                rng.gamma(2, 1, 120) * level,
                rng.gamma(3, 0.4 * (1 + point), 120) / level,
            )
    return made


@pytest.mark.parametrize("seed", range(3))
def test_metrics_equal_the_oracle(seed: int, tmp_path: Path) -> None:
    """Mixes the queries of the two nearest points, and computes each user's metrics query by query."""
    made, loss_km, before = noisy(seed), 2.0, 30
    frames = []
    for (lppm, point, replication, user), values in made.items():
        same: dict[str, Any] = {"lppm": lppm, "point": point, "replication": replication, "user": user}
        frames += [shift(51, **same), queries(*values, **same).assign(cell=[0, 249] * 60)]
    adapted, _ = at(swept(tmp_path, frames), loss_km, window=7, before=before, recovered=0.8)
    rows = {(row["lppm"], row["user"]): row for row in adapted.users.to_dict("records")}
    assert len(rows) == 4
    for (lppm, user), row in rows.items():
        means = [
            np.mean([own for (*key, u), own in made.items() if key[:2] == [lppm, point] and u == user], axis=0)
            for point in range(3)
        ]
        losses = [values[1, 50 - before : 50].mean() for values in means]
        lower = max(i for i in range(2) if losses[i] <= loss_km)
        share = (loss_km - losses[lower]) / (losses[lower + 1] - losses[lower])
        error, loss = (1 - share) * means[lower] + share * means[lower + 1]
        own = [(i - 50, {"adversary_error_km": error[i], "quality_loss_km": loss[i]}) for i in range(50 - before, 120)]
        expected = _user_metrics(own, window=7, recovered=0.8)
        assert {name: row[name] for name in OF_USER} == pytest.approx(expected)
        assert row["quality_loss_before_km"] == pytest.approx(loss_km)
        assert row["quality_loss_after_km"] == pytest.approx(loss[50:].mean())


def test_values_swept_outside_the_mechanisms_are_an_error(tmp_path: Path) -> None:
    run = swept(tmp_path, constant("ann", LOSSES, 1.0), **{"shifts.0.at_query": [1, 1, 2]})
    with raises_code(ChoiceNotApplicable, "swept-outside-mechanisms") as error:
        adaptation(run, at_km=1.0)
    assert "sweeps shifts.0.at_query" in str(error.value)


def test_loss_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^at_km\b.*\(0, inf\), got 0"):
        adaptation(swept(tmp_path, constant("ann", LOSSES, 1.0)), at_km=0.0)


def test_command_compares_at_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = "shifts: [{kind: relocate, at_query: 61}]\nsweep: {lppms.*.design.epsilon_per_km: [0.2, 1, 5]}\n"
    Path("moved.yaml").write_text(MOVE + sweep)
    done("run", "moved.yaml", "-o", "run", "--no-figures")
    text = " ".join(done("adaptation", "run", "--at", "0.7").split())
    assert "0.7 km before the shift" in text
    table = sim.Result.open("run").run.read_csv("adaptation.csv")
    assert table["quality_loss_before_km"].tolist() == pytest.approx([0.7, 0.7])
    assert table["point"].tolist() == [0, 0]
    assert "Invalid value for '--at'" in refused("adaptation", "run", "--at", "0")
    summary = ("--set", "record={log: summary, window: 20}", "--no-figures")
    done("run", "moved.yaml", "-o", "summary", *summary)
    with raises_code(NotApplicable, "needs-query-log"):
        sim.Result.open("summary").adaptation(window=20, at_km=0.7)
