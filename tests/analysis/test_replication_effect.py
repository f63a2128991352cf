"""Intervals over users and replications: closed forms, coverage, and moments that are merged between blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sim.analysis import replication_effect
from sim.analysis.event_log import SERIES
from sim.analysis.replication_effect import ReplicationMoments, batches_of, deviations, half_width
from sim.analysis.summary import summarize_users
from sim.interfaces import FloatArray
from sim.storage.event_schema import MEASURES

KEYS = ["lppm"]
CASES = [
    # users, replications, standard deviations of A, B and e
    (20, 5, 1.0, 1.0, 1.0),
    (50, 10, 1.0, 0.5, 1.0),
    (50, 5, 0.0, 1.0, 3.0),
    (10, 30, 1.0, 0.3, 1.0),
    (50, 10, 1.0, 0.0, 1.0),
]


def table(values: FloatArray, lppm: str = "A", replications: Sequence[int] | None = None) -> pd.DataFrame:
    """Return rows by user and replication of values with the shape (users, replications)."""
    users, times = values.shape
    numbers = list(range(times)) if replications is None else list(replications)
    index = pd.MultiIndex.from_product([[f"u{i:03}" for i in range(users)], numbers], names=["user", "replication"])
    return pd.DataFrame({"lppm": lppm, "x": values.ravel()}, index=index).reset_index()


def moments(rows: pd.DataFrame) -> ReplicationMoments:
    return ReplicationMoments.of(deviations(batches_of(rows, KEYS, ["x"]), KEYS, ["x"]), KEYS, ["x"])


def halves(rows: pd.DataFrame, own: ReplicationMoments | None = None) -> pd.Series[float]:
    by_lppm = rows.groupby(["lppm", "user"])["x"].mean().groupby("lppm")
    variances, counts = by_lppm.var(ddof=1).to_frame(), by_lppm.count().to_frame()
    return (moments(rows) if own is None else own).half_widths(variances, counts)["x"]


def anova(values: FloatArray) -> tuple[float, float, float]:
    """Return the mean squares of users, replications and rest of a complete two-way table."""
    users, times = values.shape
    rows, columns, mean = values.mean(axis=1), values.mean(axis=0), values.mean()
    rest = values - rows[:, None] - columns + mean
    return (
        times * float(((rows - mean) ** 2).sum()) / (users - 1),
        users * float(((columns - mean) ** 2).sum()) / (times - 1),
        float((rest**2).sum()) / ((users - 1) * (times - 1)),
    )


@pytest.mark.parametrize(("users", "times", "a", "b", "e"), CASES)
def test_interval_covers_the_mean_in_95_of_100_runs(users: int, times: int, a: float, b: float, e: float) -> None:
    """With fixed seeds; an interval over users alone covers it clearly less often if replications share an effect."""
    rng, runs = np.random.default_rng(7), 4_000
    noise = rng.normal(0, e, (runs, users, times)) if e else np.zeros((runs, users, times))
    values = rng.normal(0, 1, (runs, users, 1)) * a + rng.normal(0, 1, (runs, 1, times)) * b + noise
    means = values.mean(axis=2)
    apart = values - means[:, :, None]
    variance = means.var(axis=1, ddof=1)
    between = (apart.sum(axis=1) ** 2).sum(axis=1) / users
    rest = ((apart**2).sum(axis=(1, 2)) - between) / ((users - 1) * (times - 1))
    number = [np.full(runs, float(n)) for n in (users, times)]
    half = half_width(variance, number[0], between / (times - 1), rest, number[1])
    covered = float((np.abs(means.mean(axis=1)) < half).mean())
    over_users = stats.t.ppf(0.975, users - 1) * np.sqrt(variance / users)
    covered_by_users = float((np.abs(means.mean(axis=1)) < over_users).mean())
    error = 3 * np.sqrt(0.95 * 0.05 / runs)
    assert 0.95 - error - 0.01 < covered < 0.97 + error
    assert b == 0 or users == 10 or covered_by_users < 0.85


def test_half_width_is_that_of_the_two_way_analysis_of_variance() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(0, 1, (7, 1)) + rng.normal(0, 2, (1, 4)) + rng.normal(0, 0.5, (7, 4))
    ms_a, ms_b, ms_e = anova(values)
    total = ms_a + ms_b - ms_e
    freedom = max(3.0, total**2 / (ms_a**2 / 6 + ms_b**2 / 3 + ms_e**2 / 18))
    expected = stats.t.ppf(0.975, freedom) * np.sqrt(total / 28)
    assert halves(table(values))["A"] == pytest.approx(expected)


@pytest.mark.parametrize("times", [1, 3])
def test_without_a_common_effect_the_interval_is_students_t_over_users(times: int) -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(0, 1, (6, 1)) + rng.normal(0, 1, (6, times))
    values -= values.mean(axis=0) - values.mean() if times > 1 else 0.0  # replications have equal means
    expected = stats.t.ppf(0.975, 5) * stats.sem(values.mean(axis=1))
    assert halves(table(values))["A"] == pytest.approx(expected, rel=1e-12)


def test_moments_of_blocks_of_users_are_those_of_all_users() -> None:
    rng = np.random.default_rng(3)
    values = 1e6 + rng.normal(0, 1, (9, 1)) + rng.normal(0, 1, (1, 5)) + rng.normal(0, 1, (9, 5))
    rows = pd.concat([table(values), table(values[:, :2] * 2, "B")], ignore_index=True)
    merged = None
    for users in (["u000"], ["u001", "u004", "u008"], ["u002", "u003", "u005", "u006", "u007"]):
        own = moments(rows[rows["user"].isin(users)])
        merged = own if merged is None else merged.merged(own)
    assert merged is not None
    np.testing.assert_allclose(halves(rows, merged), halves(rows), rtol=1e-9)


def test_many_replications_are_combined_into_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication_effect, "MOST_BATCHES", 3)
    rng = np.random.default_rng(4)
    values = rng.normal(0, 1, (5, 1)) + rng.normal(0, 3, (1, 6)) + rng.normal(0, 1, (5, 6))
    batched = (values[:, :3] + values[:, 3:]) / 2
    parts = [table(values[:, :4]), table(values[:, 4:], replications=[4, 5])]
    joined = pd.concat([batches_of(part, KEYS, ["x"]) for part in parts])
    own = batches_of(joined, KEYS, ["x"])
    assert own["weight"].tolist() == [2] * 15
    assert own["x"].tolist() == pytest.approx(batched.ravel().tolist())
    assert halves(table(values))["A"] == pytest.approx(halves(table(batched))["A"])


def test_unequal_batches_are_weighted() -> None:
    """The deviations of a user are those of the weighted mean, and their mean is zero."""
    rows = table(np.array([[1.0, 4.0], [2.0, 3.0]])).assign(weight=[2, 1, 2, 1])
    apart = deviations(rows, KEYS, ["x"])["x"]
    assert apart.tolist() == pytest.approx(
        [(4 / 3) * (1 - 2), (2 / 3) * (4 - 2), (4 / 3) * (2 - 7 / 3), (2 / 3) * (2 / 3)]
    )
    assert apart.groupby([0, 0, 1, 1]).sum().tolist() == pytest.approx([0, 0])


def test_summary_has_the_interval_over_users_and_replications() -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(9, 1, (6, 1)) + rng.normal(0, 2, (1, 4)) + rng.normal(0, 1, (6, 4))
    rows = table(values).assign(point=0, attack="markov", queries=1)
    for name in MEASURES:
        rows[name] = rows["x"]
    (row,) = summarize_users(rows[[*SERIES, "user", "replication", "queries", *MEASURES]]).to_dict("records")
    assert row["adversary_error_km"] == pytest.approx(values.mean())
    half = halves(table(values))["A"]
    assert half > stats.t.ppf(0.975, 5) * stats.sem(values.mean(axis=1))
    limits = row["adversary_error_km_low"], row["adversary_error_km_high"]
    assert limits == pytest.approx((values.mean() - half, values.mean() + half))
