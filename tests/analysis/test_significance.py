"""Tests of several differences: Holm's correction against the closed test, p-values against intervals and SciPy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sim.analysis.equal_loss_tables import SIGNIFICANT, at_loss_caption, at_loss_columns, completed
from sim.analysis.moments import ColumnMoments
from sim.analysis.ranking import at_loss
from sim.analysis.statistics import holm
from sim.interfaces import FloatArray
from sim.storage.errors import RequestError
from tests.analysis.test_ranking import rows
from tests.support import raises_code


def closed_test(p_values: FloatArray) -> list[float]:
    """Return the adjusted p-values of the closed test whose intersections are tested by Bonferroni, by enumeration."""
    places = range(len(p_values))
    subsets = [list(subset) for size in places for subset in combinations(places, size + 1)]
    return [max(min(1.0, len(own) * p_values[own].min()) for own in subsets if place in own) for place in places]


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.02, 0.2, 0.5, 1.0]) | st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_with_bonferroni(values: list[float]) -> None:
    p_values = np.array(values)
    assert holm(p_values).tolist() == pytest.approx(closed_test(p_values))


def test_missing_tests_are_not_in_the_family() -> None:
    assert holm(np.array([np.nan, 0.02, np.nan])).tolist() == pytest.approx([np.nan, 0.02, np.nan], nan_ok=True)
    assert holm(np.array([])).tolist() == []


def test_p_value_is_that_of_the_paired_t_test() -> None:
    values = pd.DataFrame(np.random.default_rng(1).normal(0.3, 1, size=(9, 3)), columns=list("abc"))
    expected = np.asarray(stats.ttest_1samp(values, 0).pvalue)
    assert list(ColumnMoments.of(values).p_values.values()) == pytest.approx(expected.tolist())


@pytest.mark.parametrize("common", [0.0, 0.6])
def test_p_value_agrees_with_the_interval_over_users_and_replications(common: float) -> None:
    """The mean moved to the end of its 95 % interval has a p-value of 0.05."""
    rng = np.random.default_rng(2)
    single = rng.normal(size=(12, 4)) + common * rng.normal(size=4)
    means = single.mean(axis=1)
    keys = pd.MultiIndex.from_product([range(12), range(4)], names=["user", "replication"])
    apart = pd.DataFrame({"a": (single - means[:, None]).ravel()}, index=keys)
    half = ColumnMoments.of(pd.DataFrame({"a": means}), apart).halves["a"]
    moved = pd.DataFrame({"a": means - means.mean() + half})
    assert ColumnMoments.of(moved, apart).p_values["a"] == pytest.approx(0.05)
    alone = ColumnMoments.of(moved).p_values["a"]
    assert (alone < 0.049) == (common > 0)


def table(*, users: int = 9, tried: int = 20) -> pd.DataFrame:
    """Return a comparison of mechanisms at 1 km: one far above the reference, one just above it, the others equal."""
    names = [f"u{i}" for i in range(users)]
    wave = np.where(np.arange(users) % 2, 0.1, -0.1)

    def slopes(mean: float, sign: float = 1.0) -> dict[str, float]:
        return dict(zip(names, (mean + sign * wave).tolist(), strict=True))

    others = [rows(f"other {i}", slopes(0.5, 2.0 + i), users=names) for i in range(tried)]
    frames = [rows("reference", slopes(0.5), users=names), rows("far", slopes(0.9, -1.0), users=names)]
    near = rows("near", slopes(0.68, -1.0), users=names)
    return at_loss(pd.concat([*frames, near, *others]), [1.0], against="reference").assign(circumstances="")


def test_a_difference_is_marked_if_it_is_significant_over_all_differences_of_the_table() -> None:
    shown = completed(table(), None).assign(spread="interval")
    column = next(column for column in at_loss_columns("reference", shown) if column.heading == "minus reference")
    marked = [row["lppm"] for row in shown.to_dict("records") if SIGNIFICANT in column.cell(row).text]
    assert marked == ["far"]
    near = shown[shown["lppm"] == "near"].iloc[0]
    assert near["p_value"] < 0.05 < near["p_holm"]
    assert "significant at 5 % over the 22 differences of this table (Holm)" in at_loss_caption(shown)
    alone = completed(table(tried=0), None)
    assert alone.loc[alone["lppm"] == "near", "p_holm"].item() < 0.05


def test_nothing_is_tested_with_fewer_than_five_users() -> None:
    shown = completed(table(users=4), None).assign(spread="users")
    assert shown["p_holm"].isna().all()
    assert SIGNIFICANT not in at_loss_caption(shown)


def test_efficiency_is_the_error_divided_by_that_of_the_ceiling() -> None:
    compared = completed(table(tried=0), "far").set_index("lppm")
    errors = compared["error_km"]
    assert compared["efficiency"].to_dict() == pytest.approx((errors / errors["far"]).to_dict())
    assert compared.loc["far", "efficiency"] == 1
    assert "P_AE divided by that of far" in at_loss_caption(compared.reset_index().assign(spread="interval"))
    with raises_code(RequestError, "unknown-lppm") as error:
        completed(table(tried=0), "full")
    assert str(error.value) == "no LPPM 'full' for the ceiling; available: reference, far, near"
