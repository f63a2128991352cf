"""Spread around a mean: the range over few users, otherwise intervals within a metric's bounds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

import sim
from sim import plots, report
from sim.analysis.event_log import SERIES
from sim.analysis.result import Result
from sim.analysis.statistics import with_spread
from sim.analysis.tables import format_metric, spread_note
from sim.plots import for_print, of_run
from sim.scenario.models import Scenario
from tests.analysis.variance import plain_half_width
from tests.support import done

PAIR = ["quality_loss_km", "adversary_error_km"]
KINDS = ("tradeoff", "over_time", "efficiency", "profiles", "adaptation")


def summary(users: int, mean: float, half: float, replications: int = 1) -> pd.DataFrame:
    key = {"point": 0, "lppm": "SP", "attack": "markov", "users": users, "replications": replications}
    ends = {"hit_rate": mean, "hit_rate_low": mean - half, "hit_rate_high": mean + half}
    return pd.DataFrame([key | ends])


def units(*values: float) -> pd.DataFrame:
    key = {"point": 0, "lppm": "SP", "attack": "markov"}
    return pd.DataFrame([key | {"user": f"u{i}", "hit_rate": value} for i, value in enumerate(values)])


@pytest.mark.parametrize("number", [2, 3, 4])
def test_spread_of_fewer_than_five_users_is_their_range(number: int) -> None:
    values = [0.2, 0.9, 0.4, 0.5][:number]
    (row,) = with_spread(summary(number, 0.5, 3.0), units(*values), ["hit_rate"], SERIES).to_dict("records")
    assert (row["hit_rate"], row["hit_rate_low"], row["hit_rate_high"]) == (0.5, min(values), max(values))
    assert row["spread"] == "users"
    assert format_metric(row, "hit_rate", 2) == ("0.50", f"({min(values):.2f} to {max(values):.2f})")


@example(0.5, 1.0)  # truncated at both ends by the same amount
@given(st.floats(0, 1), st.floats(0, 20))
@settings(deadline=None, max_examples=50)
def test_interval_is_truncated_at_the_bounds_of_its_metric(mean: float, half: float) -> None:
    (row,) = with_spread(summary(5, mean, half), units(), ["hit_rate"], SERIES).to_dict("records")
    assert 0 <= row["hit_rate_low"] <= mean <= row["hit_rate_high"] <= 1
    low, high = mean - half, mean + half
    assert row["hit_rate_low"] == max(low, 0.0)
    assert row["hit_rate_high"] == min(high, 1.0)
    for written in (
        format_metric(row, "hit_rate", 4)[1],
        format_metric(summary(5, mean, half).iloc[0].to_dict(), "hit_rate", 4)[1],
    ):
        if min(low, 1 - high) < -1e-6:
            assert re.fullmatch(r"\[[\d.]+, [\d.]+\]", written)
        elif low > 0 and high < 1:
            assert written == f"± {high - mean:.4f}"


def test_differences_have_no_bounds() -> None:
    row = {"difference_km": 0.1, "difference_km_low": -0.3, "difference_km_high": 0.5}
    assert format_metric(row, "difference_km", 1) == ("0.1", "± 0.4")
    recovery = {"queries_to_recover": -3.0, "queries_to_recover_low": -9.0, "queries_to_recover_high": 3.0}
    assert format_metric(recovery, "queries_to_recover", 0, signed=True) == ("-3", "± 6")


@pytest.mark.parametrize("replications", [1, 4, 5])
def test_single_user_has_an_interval_over_at_least_five_replications(replications: int) -> None:
    (row,) = with_spread(summary(1, 0.5, 0.1, replications), units(0.5), ["hit_rate"], SERIES).to_dict("records")
    assert np.isnan(row["hit_rate_low"]) == (replications < 5)
    exact = with_spread(summary(1, 0.5, 0.0, replications), units(0.5), ["hit_rate"], SERIES)
    assert exact["hit_rate_low"].item() == 0.5  # exact metrics need no second replication
    note = "no intervals for one user" if replications < 5 else "95 % confidence intervals over replications"
    assert note in spread_note([row["spread"]], "replications")


# ------------------------------------------------------------------------------------------------------- whole runs


def run_of(users: int, out: Path) -> Result:
    """Return a run with a shift, a sweep and snapshots, and this number of users."""
    scenario = {
        "name": "few",
        "seed": 3,
        "replications": 2,
        "world": {"grid": {"kind": "rectangle", "rows": 4, "cols": 5, "width_km": 5.0, "height_km": 4.0}},
        "users": {"count": users, "queries": 130, "mobility": {"kind": "favourites", "places": 4}},
        "training": {"others": {"kind": "others", "count": 8, "queries": 30}},
        "lppms": ["SP-Exp", "PEB-LH"],
        "attacks": ["sporadic", "markov"],
        "sweep": {"lppms.*.design.epsilon_per_km": [0.5, 2]},
        "shifts": [{"kind": "relocate", "at_query": 71}],
        "record": {"snapshots": [1, 20]},
    }
    return sim.run(Scenario.model_validate(scenario), out=out, figures=False)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Result]:
    return {users: run_of(users, tmp_path_factory.mktemp("runs") / f"of{users}") for users in (1, 2, 5)}


def bands(figure: Figure) -> list[PolyCollection]:
    return [band for axes in figure.axes for band in axes.collections if isinstance(band, PolyCollection)]


def thin(figure: Figure) -> list[tuple[list[float], list[float]]]:
    """Return the values of single users, which are drawn half transparent."""
    drawn = [line for axes in figure.axes for line in axes.get_lines() if line.get_alpha() == 0.5]
    return [
        (np.asarray(line.get_xdata(), float).tolist(), np.asarray(line.get_ydata(), float).tolist()) for line in drawn
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("users", [1, 2, 5])
def test_figures_show_single_users_or_bands_and_nothing_below_zero(
    kind: str, users: int, results: dict[int, Result]
) -> None:
    figure = for_print.draw(results[users].run, kind, width=7.16)
    assert bool(thin(figure)) == (users == 2)
    note = figure.legends[0].get_title().get_text().replace("\n", " ")
    assert ("individual users (no intervals for fewer than 5 users)" in note) == (users == 2)
    assert ("confidence intervals over users" in note) == (users == 5)
    for axes in figure.axes:
        low, high = axes.get_ylim()
        # The margin below zero has room for half a marker only.
        assert low >= -0.05 * (high - low)
        values = [line.get_ydata() for line in axes.get_lines() if line.get_label() != plots.DIAGONAL]
        assert all(np.nanmin(np.asarray(own, dtype=float)) >= 0 for own in values)
    for band in bands(figure):
        assert band.get_datalim(band.axes.transData).y0 >= 0  # type: ignore[union-attr]


def test_thin_lines_are_the_values_of_single_users(results: dict[int, Result]) -> None:
    """In the trade-off figure: each user's losses and errors, sorted by loss."""
    users = results[2].totals().users
    figure = for_print.draw(results[2].run, "tradeoff", width=7.16)
    expected = [f"expected_{name}" for name in PAIR]
    expected_lines = [
        tuple(own.sort_values(expected[0])[expected].to_numpy().T.tolist())
        for _, own in users.groupby(["lppm", "attack", "user"])
    ]
    assert sorted(thin(figure)) == sorted(expected_lines)
    ordinary, _ = of_run.users_of_few(results[2], results[2].summary())
    assert ordinary is not None
    assert of_run.users_of_few(results[5], results[5].summary()) == (None, None)
    assert of_run.users_of_few(results[1], results[1].summary()) == (None, None)


def test_wide_intervals_are_truncated_at_zero_in_figures() -> None:
    rows = []
    for index, mean in enumerate((0.4, 0.5, 0.45)):
        key = {"point": 0, "lppm": "SP", "attack": "markov", "users": 5, "first_index": index + 1}
        row: dict[str, Any] = key | {"last_index": index + 1}
        for name in PAIR:
            row |= {name: mean, f"{name}_low": mean - 3, f"{name}_high": mean + 3}
            row |= {f"expected_{name}{end}": np.nan for end in ("", "_low", "_high")}
        rows.append(row)
    table = pd.DataFrame(rows)
    for figure in (plots.over_time_figure(table), plots.tradeoff_figure(table.head(1))):
        for axes in figure.axes:
            low, high = axes.get_ylim()
            assert low >= -0.05 * (high - low)
            assert high < 1.6, "the lines, not their bands, determine the limits"
    assert all(band.get_datalim(band.axes.transData).y0 >= 0 for band in bands(plots.over_time_figure(table)))  # type: ignore[union-attr]


def test_tables_show_the_range_of_two_users_and_files_have_intervals(results: dict[int, Result]) -> None:
    result = results[2]
    printed = " ".join(done("summarize", result.path, "--metrics", "--at", "1").split())
    assert "range over users in parentheses (no intervals for fewer than 5 users)" in printed
    assert "±" not in printed
    users = result.totals().users
    for _, own in users.groupby(SERIES):
        error = own["expected_adversary_error_km"]
        assert f"{error.mean():.3f} ({error.min():.3f} to {error.max():.3f})" in printed
    page = report.page([result])
    answers = page[page.index('<section id="answers"') :].partition("</section>")[
        0
    ]  # Wilson's intervals need no five users
    assert "±" not in page[page.index("<body") : page.index('id="data"')].replace(answers, "")
    assert not re.search(r"protects best|ranks first", page)
    written = result.run.read_csv("summary.csv")
    replications = result.per_user()
    for row in written.to_dict("records"):
        own = replications[(replications[SERIES] == [row[name] for name in SERIES]).all(axis=1)]
        losses = own.pivot(index="user", columns="replication", values="quality_loss_km").to_numpy()
        low, high = losses.mean() - plain_half_width(losses), losses.mean() + plain_half_width(losses)
        assert (row["quality_loss_km_low"], row["quality_loss_km_high"]) == pytest.approx((low, high))


def test_tables_of_five_users_show_intervals(results: dict[int, Result]) -> None:
    printed = done("summarize", results[5].path)
    assert "95 % confidence intervals over users" in " ".join(printed.split())
    row = results[5].summary().iloc[0]
    half = row["expected_quality_loss_km_high"] - row["expected_quality_loss_km"]
    assert f"{row['expected_quality_loss_km']:.3f} ± {half:.3f}" in printed
    data = report.page([results[5]])
    assert '"each"' not in data
