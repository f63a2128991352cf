"""Moments merged between blocks agree with those of all users together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.analysis.moments import ColumnMoments, Moments, RatioMoments
from sim.analysis.quantiles import counted_quantile
from sim.analysis.replications import replication_means, replication_moments
from sim.analysis.statistics import PairedLeads, intervals, ratio_of_means
from sim.analysis.tiles import Tiles
from sim.storage.event_schema import MEASURES

RNG = np.random.default_rng(5)


def table(rows: int) -> pd.DataFrame:
    values = {"loss": 5.0 + RNG.normal(size=rows), "error": RNG.gamma(2.0, size=rows)}
    frame = pd.DataFrame({"key": RNG.integers(0, 3, rows), "n": RNG.integers(1, 9, rows), **values})
    return frame.mask(RNG.random(frame.shape) < 0.1).assign(key=frame["key"], n=frame["n"])


@pytest.mark.parametrize("cuts", [[0], [0, 1], [0, 1, 2, 40], [0, 199]])
def test_merged_moments_are_those_of_pandas(cuts: list[int]) -> None:
    frame = table(200)
    blocks = [frame.iloc[a:b] for a, b in zip(cuts, [*cuts[1:], None], strict=True)]
    names = ["loss", "error"]
    merged = Moments.of(blocks[0], ["key"], names, sums=["n"])
    for block in blocks[1:]:
        merged = merged.merged(Moments.of(block, ["key"], names, sums=["n"]))
    groups = frame.groupby("key")
    for name in names:
        columns = merged.frame[[name, f"{name}_count", f"{name}_variance"]]
        np.testing.assert_allclose(columns, groups[name].agg(["mean", "count", "var"]), rtol=1e-12)
    assert merged.frame["n"].tolist() == groups["n"].sum().tolist()
    assert merged.frame["units"].tolist() == groups.size().tolist()


def test_infinite_values_have_an_infinite_mean() -> None:
    tables = (pd.DataFrame({"key": [0, 0], "x": values}) for values in ([1.0, np.inf], [2.0, 3.0]))
    one, other = (Moments.of(units, ["key"], ["x"]) for units in tables)
    for merged in (one.merged(other), other.merged(one), one.merged(one)):
        assert merged.frame["x"].tolist() == [np.inf]


def test_moments_of_one_block_are_intervals_to_the_bit() -> None:
    units = pd.DataFrame({"key": [0, 0, 1], **{name: RNG.random(3) for name in MEASURES}})
    means = units.groupby("key")[list(MEASURES)].mean()
    pd.testing.assert_frame_equal(intervals(units, ["key"]).set_index("key")[list(MEASURES)], means, check_exact=True)


@pytest.mark.parametrize("cut", [1, 30, 99])
def test_merged_ratios_agree_with_the_ratio_of_all_users(cut: int) -> None:
    under = RNG.gamma(3.0, size=(100, 4))
    over = under * RNG.normal(1.0, 0.2, size=(100, 4))
    over[RNG.random(over.shape) < 0.2] = np.nan
    merged = RatioMoments.of(over[:cut], under[:cut]).merged(RatioMoments.of(over[cut:], under[cut:]))
    for ours, theirs in zip(merged.intervals(), ratio_of_means(over, under), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    padded = RatioMoments.of(over, under).padded(6)
    assert padded.count.tolist()[4:] == [0, 0]
    np.testing.assert_array_equal(padded.take(slice(4)).means, RatioMoments.of(over, under).means)


def test_merged_leads_are_paired_by_user() -> None:
    values = pd.DataFrame(RNG.normal(size=(50, 3)), columns=list("abc")).add(RNG.normal(size=50) * 100, axis=0)
    leads = PairedLeads()
    for start, stop in ((0, 7), (7, 7), (7, 50)):
        leads.add(values.iloc[start:stop])
    assert leads.users == 50
    apart = values["b"] - values["c"]
    half = ColumnMoments.of(apart.to_frame("c")).halves["c"]
    assert leads.over("b")["c"] == pytest.approx((apart.mean(), half), rel=1e-12)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5)), min_size=1, max_size=12), st.floats(0, 1))
def test_counted_quantile_is_that_of_the_repeated_values(pairs: list[tuple[int, int]], q: float) -> None:
    values, counts = np.array(pairs).T
    expected = pd.Series(np.repeat(values, counts)).quantile(q)
    assert counted_quantile(values.astype(float), counts, q) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_replication_means_are_merged_over_blocks_of_users() -> None:
    keys = {"point": 0, "lppm": "a", "attack": "x", "user": [*"uvw"] * 2, "replication": [0] * 3 + [1] * 3}
    users = pd.DataFrame(keys | {name: RNG.random(6) for name in MEASURES})
    first, rest = users[users["user"] == "u"], users[users["user"] != "u"]
    merged = replication_means(replication_moments(first).merged(replication_moments(rest)))
    pd.testing.assert_frame_equal(merged, replication_means(users), rtol=1e-12)


def test_tiles_keep_the_mass_of_a_profile() -> None:
    tiles = Tiles.of(7, 5, most=6)
    profile = RNG.dirichlet(np.ones(35), size=2)
    sums = tiles.sums(profile)
    assert tiles.size == 3
    assert sums.shape == (2, 6)
    np.testing.assert_allclose(sums.sum(axis=1), 1.0)
    grid = profile[0].reshape(7, 5)
    assert sums[0, 0] == pytest.approx(grid[:3, :3].sum())
    assert sums[0, 5] == pytest.approx(grid[6:, 3:].sum())
