"""Rankings: known lines give known errors, and significance is that of a paired test over users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sim.analysis.ranking import Ranking, at_loss, rankings, remarks
from sim.analysis.user_curves import user_curves
from sim.interfaces import FloatArray
from sim.storage.errors import RequestError
from sim.storage.event_schema import MEASURES
from tests.analysis.variance import plain_half_width
from tests.support import raises_code

USERS = ("ann", "bob", "cem", "dan", "eve")
UNCOMPARED = (
    "Not compared at equal loss, because a single quality loss was simulated (sweep a parameter to obtain several)"
)


def rows(
    lppm: str,
    slopes: Mapping[str, float] | float,
    losses: Sequence[float] = (0.0, 1.0, 4.0),
    users: Sequence[str] = USERS,
    priors: Mapping[str, float] | None = None,
    **same: Any,
) -> pd.DataFrame:
    """Return a table as of `per_user`, in which a user's error is the user's slope times the loss."""
    by_user = slopes if isinstance(slopes, Mapping) else dict.fromkeys(users, slopes)
    table = [
        {
            "point": point,
            "lppm": lppm,
            "attack": "markov",
            "user": user,
            "replication": 0,
            "queries": 10,
            "quality_loss_km": loss,
            "adversary_error_km": slope * loss,
            "expected_quality_loss_km": np.nan,
            "expected_adversary_error_km": np.nan,
            "prior_error_km": (priors or {}).get(user, np.nan),
            **same,
        }
        for user, slope in by_user.items()
        for point, loss in enumerate(losses)
    ]
    return pd.DataFrame(table)


def only(*tables: pd.DataFrame) -> Ranking:
    (ranking,) = rankings(pd.concat(tables, ignore_index=True))
    return ranking


def significant(ranking: Ranking) -> dict[str, bool]:
    return {name: ranking.leads_significantly(name) for name in ranking.leads_km}


def test_errors_are_interpolated_at_one_loss_and_the_best_comes_first() -> None:
    ranking = only(rows("worst", 0.2), rows("best", 0.9, losses=(5.0, 2.0)), rows("middle", 0.5, losses=(1.0, 3.0)))
    assert ranking.attack == "markov"
    assert ranking.quality_loss_km == 2.5  # all attain 2 to 3 km
    assert list(ranking.errors_km) == ["best", "middle", "worst"]
    assert ranking.errors_km == pytest.approx({"best": 2.25, "middle": 1.25, "worst": 0.5})
    assert significant(ranking) == {"middle": True, "worst": True}
    assert ranking.leads_km["middle"] == pytest.approx((1.0, 0.0))


def test_interpolation_is_linear() -> None:
    bent = rows("bent", 1.0, losses=(0.0, 2.0, 4.0))
    bent["adversary_error_km"] = bent["quality_loss_km"].map({0.0: 0.0, 2.0: 2.0, 4.0: 2.0})
    ranking = only(bent, rows("straight", 0.1, losses=(1.0, 5.0)))
    assert ranking.quality_loss_km == 2.5
    assert ranking.errors_km["bent"] == pytest.approx(2.0)


def test_common_loss_is_attained_by_every_user_with_every_mechanism() -> None:
    wide = pd.concat([rows("A", 1.0, losses=(0.0, 10.0), users=["ann"]), rows("A", 1.0, (3.0, 5.0), users=["bob"])])
    assert only(wide, rows("B", 0.5, (1.0, 9.0), users=["ann", "bob"])).quality_loss_km == 4.0


def test_expected_metrics_are_preferred_and_replications_are_averaged() -> None:
    expected = rows("A", 9.0).assign(expected_quality_loss_km=lambda t: t["quality_loss_km"])
    expected["expected_adversary_error_km"] = 0.5 * expected["quality_loss_km"]
    twice = [rows("B", slope, replication=i) for i, slope in enumerate((0.2, 0.4))]
    ranking = only(expected, *twice)
    assert ranking.errors_km == pytest.approx({"A": 1.0, "B": 0.6})


LEADS = [0.1, 0.3, 0.2, 0.25, 0.2]


@pytest.mark.parametrize("noise", [0.2, 2.0])
def test_lead_is_paired_by_user(noise: float) -> None:
    """Users differ much more than mechanisms: an unpaired test would not be significant."""
    base = dict(zip(USERS, [1.0, 5.0, 2.0, 9.0, 3.0], strict=True))
    ahead = {user: base[user] + noise * lead for (user, lead) in zip(USERS, LEADS, strict=True)}
    ranking = only(rows("B", base), rows("A", ahead))
    assert list(ranking.errors_km) == ["A", "B"]
    assert significant(ranking) == {"B": True}
    one, other = ([slopes[user] * ranking.quality_loss_km for user in USERS] for slopes in (ahead, base))
    assert stats.ttest_rel(one, other).pvalue < 0.05 < stats.ttest_ind(one, other).pvalue


@pytest.mark.parametrize("shift", [-0.02, 0.02])
def test_significance_is_that_of_a_paired_t_test(shift: float) -> None:
    """Leads just below and just above the limit of the t-test of scipy."""
    leads = np.array([0.1, -0.2, 0.3, 0.0, 0.1])
    half = stats.t.ppf(0.975, 4) * stats.sem(leads)
    leads += half - leads.mean() + shift
    ahead = dict(zip(USERS, 1.0 + leads, strict=True))
    ranking = only(rows("A", ahead, losses=(0.0, 2.0)), rows("B", 1.0, losses=(0.0, 2.0)))
    assert ranking.quality_loss_km == 1.0
    assert significant(ranking) == {"B": shift > 0}
    assert (stats.ttest_1samp(leads, 0).pvalue < 0.05) == (shift > 0)


@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_nothing_is_significant_with_fewer_than_five_users(number: int) -> None:
    """Even if the lead is large and equal for all users."""
    users = USERS[:number]
    ranking = only(rows("A", 5.0, users=users), rows("B", 0.1, users=users))
    assert significant(ranking) == {"B": number == 5}
    text = str(ranking)
    assert ("A protects best" in text) == (number == 5)
    few = {1: "1 user is too few", 2: "2 users are too few", 4: "4 users are too few"}
    value = "A has adversary error 10.00 km; B 0.20"
    assert number == 5 or f"{few[number]} for a significance test: {value}" in text
    assert not any(word in text for word in ("ranks first", "nan", *(["±"] if number < 5 else [])))


def test_tie_is_not_significant() -> None:
    assert significant(only(rows("A", 0.5), rows("B", 0.5))) == {"B": False}


def test_mechanism_with_one_point_is_excluded() -> None:
    single = rows("identity", 0.0, losses=(0.0,))
    ranking = only(rows("A", 0.5), rows("B", 0.4), single)
    assert set(ranking.errors_km) == {"A", "B"}
    assert list(rankings(pd.concat([rows("A", 0.5), single]))) == []


def test_mechanism_with_the_same_loss_at_every_point_is_excluded() -> None:
    """A mechanism that the sweep does not affect has no curve and must not affect the comparison of the others."""
    ranking = only(rows("A", 0.5), rows("B", 0.4), rows("identity", 0.0, losses=(0.0, 0.0, 0.0)))
    assert set(ranking.errors_km) == {"A", "B"}
    assert ranking.quality_loss_km == 2.0


def test_no_ranking_without_a_common_loss() -> None:
    low, high = rows("A", 0.5, losses=(0.0, 1.0)), rows("B", 0.4, losses=(2.0, 3.0))
    assert list(rankings(pd.concat([low, high]))) == []
    touching = rows("B", 0.4, losses=(1.0, 3.0))
    assert list(rankings(pd.concat([low, touching]))) == []


def test_mechanism_that_loses_more_than_p0_everywhere_is_to_be_left_out() -> None:
    """No sweep makes it comparable; a loss that is only too large for the other curves can be attained."""
    priors = dict(zip(USERS, (1.0, 1.0, 1.5, 4.0, 4.0), strict=True))
    low, middle = rows("A", 0.5, losses=(0.1, 1.0), priors=priors), rows("B", 0.4, losses=(0.2, 1.0), priors=priors)
    high = rows("C", 0.5, losses=(2.0, 3.0), priors=priors)
    (text,) = remarks(pd.concat([low, middle, high]))
    end = (
        "Leave out C: at least half of the users lose more than P0, the error without any report, at every sweep point."
    )
    assert text.endswith(end)
    high["prior_error_km"] = low["prior_error_km"] = middle["prior_error_km"] = 4.0
    (text,) = remarks(pd.concat([low, middle, high]))
    assert text.endswith("Widen the sweep, or see figures/tradeoff.")
    (text,) = remarks(pd.concat([low, high.assign(prior_error_km=1.0)]))
    assert text.endswith("Widen the sweep, or see figures/tradeoff.")  # nothing would be left to compare


def test_no_ranking_without_an_attack() -> None:
    unattacked = pd.concat([rows(name, 0.5, attack="", adversary_error_km=np.nan) for name in "AB"])
    assert list(rankings(unattacked)) == []


def test_each_attack_has_its_own_ranking() -> None:
    tables = [rows("A", 0.9), rows("B", 0.1), rows("A", 0.1, attack="sporadic"), rows("B", 0.9, attack="sporadic")]
    first, second = rankings(pd.concat(tables))
    assert (first.attack, next(iter(first.errors_km))) == ("markov", "A")
    assert (second.attack, next(iter(second.errors_km))) == ("sporadic", "B")


def test_ranking_sentence() -> None:
    errors = {"A": 1.5, "B": 1.234, "C": 1.0}
    leads = {"B": (0.266, 0.3), "C": (0.5, 0.1)}
    assert str(Ranking("markov", 2.0, errors, leads, users=6, of_users=8)) == (
        "Against markov, at 2.0 km of quality loss (6 of 8 users), the difference between A and B is not significant: "
        "A has adversary error 1.50 km; B 1.23 km (0.27 ± 0.30 km lower, not significant), "
        "C 1.00 km (0.50 ± 0.10 km lower)."
    )
    assert str(Ranking("markov", 2.0, errors, leads | {"B": (0.266, 0.2)}, users=5, of_users=5)).startswith(
        "Against markov, at 2.0 km of quality loss, A protects best: adversary error 1.50 km; "
        "B 1.23 km (0.27 ± 0.20 km lower),"
    )
    # The lead over the runner-up is significant, that over a more variable mechanism further behind is not.
    ahead = Ranking("markov", 2.0, errors, {"B": (0.266, 0.2), "C": (0.5, 0.6)}, users=5, of_users=5)
    assert "A ranks first: adversary error 1.50 km; B 1.23 km (0.27 ± 0.20 km lower)," in str(ahead)
    assert "C 1.00 km (0.50 ± 0.60 km lower, not significant)" in str(ahead)
    many = {"A": 1.5} | {f"B{i}": 1.4 for i in range(9)}
    level = Ranking("markov", 2.0, many, dict.fromkeys(list(many)[1:], (0.1, 0.2)), users=5, of_users=5)
    assert "differences between A, B0, B1, B2, B3 and 5 others are not significant: A has" in str(level)


def test_users_are_compared_by_their_prior_error_whatever_they_attain() -> None:
    priors = dict(zip(USERS, (2.0, 5.0, 5.0, 5.0, 1.9), strict=True))
    out_of_reach = rows("A", 0.9, losses=(7.0, 9.0), users=["dan"], priors=priors)
    most = rows("A", 0.9, losses=(1.0, 3.0), users=["ann", "bob", "cem", "eve"], priors=priors)
    ranking = only(most, out_of_reach, rows("B", 0.5, losses=(0.0, 4.0), priors=priors))
    assert (ranking.users, ranking.of_users) == (5, 5)
    assert ranking.quality_loss_km == 1.5  # ann, bob, cem and eve attain 1.0 to 1.9 km, losses up to P0
    assert ranking.errors_km == pytest.approx({"A": (4 * 0.9 * 1.5 + 0.9 * 7) / 5, "B": 0.75})
    assert ranking.off_curve == {"A": (0, 1)}
    few = rows("A", 0.9, losses=(1.0, 3.0), users=["ann"])
    others = rows("A", 0.9, losses=(7.0, 9.0), users=["bob", "cem", "dan"])
    table = pd.concat([few, others, rows("B", 0.5, losses=(0.0, 4.0), users=USERS[:4])])
    assert list(rankings(table)) == []
    (remark,) = remarks(table)
    assert remark.startswith("Against markov, mechanisms cannot be compared at equal quality loss: ")
    assert "A, B" in remark


def test_values_at_the_end_of_a_curve_are_marked_in_the_sentence() -> None:
    leads = {"B": (0.5, 0.1)}
    ends = {"A": (3, 1), "B": (0, 2)}
    text = str(Ranking("markov", 2.0, {"A": 1.5, "B": 1.0}, leads, users=6, of_users=8, off_curve=ends))
    assert "(6 of 8 users), A protects best: adversary error 1.50 km*; B 1.00 km* (0.50 ± 0.10 km lower)." in text
    assert text.endswith(
        "* Users outside a mechanism's curve have the value at its end: A 3 at the largest loss and 1 at the smallest, "
        "B 2 at the smallest loss."
    )


def test_mechanisms_without_a_comparison_are_named() -> None:
    table = pd.concat([rows("A", 0.5), rows("B", 0.4), rows("identity", 0.0, losses=(0.0,))])
    assert list(remarks(table)) == [f"{UNCOMPARED}: identity."]
    assert list(remarks(table[table["lppm"] != "identity"])) == []
    single = pd.concat([rows(name, 0.5, losses=(1.0,)) for name in "AB"])
    assert list(remarks(single))[-1] == f"{UNCOMPARED}: A, B."


def test_mechanisms_with_a_single_loss_are_compared_by_error_per_km() -> None:
    slopes = dict(zip(USERS, (0.4, 0.5, 0.5, 0.6, 0.5), strict=True))
    tables = [rows("A", slopes, losses=(2.0,)), rows("B", 0.8, losses=(1.0,)), rows("identity", 0.0, losses=(0.0,))]
    half = stats.t.ppf(0.975, 4) * np.std(list(slopes.values()), ddof=1) / np.sqrt(5)
    remark, _ = remarks(pd.concat(tables))
    assert remark == (
        "Against markov, each at its own quality loss, B has the highest adversary error per km of loss: "
        f"0.80 km of error per km of loss; A 0.50 km (0.30 ± {half:.2f} km lower)."
    )
    similar = [rows("A", slopes, losses=(2.0,)), rows("B", 0.51, losses=(1.0,))]
    undecided = next(remarks(pd.concat(similar)))
    assert "the difference between B and A is not significant: B has 0.51 km of error per km of loss; " in undecided
    assert undecided.endswith(f"A 0.50 km (0.01 ± {half:.2f} km lower, not significant).")


def test_error_per_km_is_the_ratio_of_the_means() -> None:
    """As for efficiency, users with a large loss have a large weight."""
    few = [rows("A", 0.9, losses=(1.0,), users=["ann"]), rows("A", 0.3, losses=(3.0,), users=["bob"])]
    remark = next(remarks(pd.concat([*few, rows("B", 0.4, losses=(1.0,), users=["ann", "bob"])])))
    assert "2 users are too few" in remark
    assert f"A has {(0.9 + 0.9) / 4:.2f} km of error per km of loss; B 0.40 km (0.05 km lower)" in remark


@pytest.mark.parametrize("losses", [(1.0,), (1.0, 3.0)])
def test_error_per_km_has_the_interval_over_users_and_replications(losses: tuple[float, ...]) -> None:
    """With equal losses in all replications, the lead per km is the difference of the errors divided by the loss."""
    rng = np.random.default_rng(4)
    apart = 0.4 + 0.3 * rng.normal(size=(6, 1)) + 0.5 * rng.normal(size=3) + 0.1 * rng.normal(size=(6, 3))
    users = [f"u{i}" for i in range(6)]
    frames = []
    for (u, r), lead in np.ndenumerate(apart):
        frames += [
            rows("A", 0.5, losses, [users[u]], replication=r),
            rows("B", 0.5 + lead, losses, [users[u]], replication=r),
        ]
    mean, half = apart.mean(), plain_half_width(apart)
    remark = next(remarks(pd.concat(frames, ignore_index=True).query("lppm != 'A' or point == 0")))
    assert f"({mean:.2f} ± {half:.2f} km lower" in remark
    assert half > 1.5 * stats.t.ppf(0.975, 5) * stats.sem(apart.mean(axis=1))


def test_narrow_range_of_losses_is_written_with_more_digits() -> None:
    ranking = only(rows("A", 0.5, losses=(0.031, 0.035)), rows("B", 0.4, losses=(0.02, 0.04)))
    assert ranking.quality_loss_km == pytest.approx(0.033)
    assert "at 0.033 km of quality loss" in str(ranking)


# ------------------------------------------------------------------------------------------------ at given losses


def test_errors_are_interpolated_at_the_given_losses() -> None:
    slopes = dict(zip(USERS, (0.5, 0.7, 1.2, 0.4, 0.8), strict=True))
    table = at_loss(pd.concat([rows("B", slopes), rows("A", 0.5)]), [1.0, 2.5])
    assert table["lppm"].tolist() == ["B", "A"] * 2
    assert set(table["against"]) == {"B"}
    errors = np.array(list(slopes.values()))
    for loss in (1.0, 2.5):
        own = table[table["quality_loss_km"] == loss]
        first, second = own.to_dict("records")
        assert first["error_km"] == pytest.approx(loss * errors.mean())
        assert (first["difference_km"], first["difference_km_low"]) == (0, 0)
        assert second["error_km"] == pytest.approx(0.5 * loss)
        assert (first["error_km_min"], first["error_km_max"]) == pytest.approx((0.4 * loss, 1.2 * loss))
        assert (second["difference_km_min"], second["difference_km_max"]) == pytest.approx((-0.7 * loss, 0.1 * loss))
        test = stats.ttest_rel(np.full(5, 0.5 * loss), errors * loss).confidence_interval(0.95)
        assert second["difference_km"] == pytest.approx(loss * (0.5 - errors.mean()))
        assert (second["difference_km_low"], second["difference_km_high"]) == pytest.approx((test.low, test.high))


PRIORS = dict(zip(USERS, (4.0, 3.0, 2.9, 9.0, 0.0), strict=True))


@pytest.mark.parametrize("reach", [2.0, 4.0])
def test_users_are_those_whose_prior_error_is_at_least_the_loss(reach: float) -> None:
    """Ann, bob and dan have P0 >= 3 km, whatever a mechanism reaches; a curve that ends before has the value there."""
    wide = rows("A", 1.0, (0.0, 5.0), priors=PRIORS)
    narrow = rows("B", 0.5, (0.0, reach), priors=PRIORS)
    table = at_loss(pd.concat([wide, narrow]), [3.0, 5.0, 9.5], against="B")
    (a, b), late, nobody = (table[table["quality_loss_km"] == loss].to_dict("records") for loss in (3.0, 5.0, 9.5))
    short = 3 if reach < 3 else 0
    assert [(row["lppm"], row["reached"], row["at_largest"], row["users"], row["of_users"]) for row in (a, b)] == [
        ("A", 3, 0, 3, 5),
        ("B", 3 - short, short, 3, 5),
    ]
    assert (a["error_km"], b["error_km"]) == (3.0, 0.5 * min(reach, 3.0))
    assert a["difference_km"] == a["error_km"] - b["error_km"]
    assert [row["users"] for row in late] == [1, 1]  # dan alone
    assert late[0]["error_km"] == 5.0
    assert np.isnan(late[0]["difference_km_low"])  # of a single user
    assert [(row["reached"], row["users"]) for row in nobody] == [(0, 0), (0, 0)]
    assert all(np.isnan(row["error_km"]) for row in nobody)


def test_curves_are_not_extrapolated_below_their_smallest_loss() -> None:
    table = at_loss(pd.concat([rows("A", 1.0, (2.0, 5.0)), rows("B", 0.5, (0.0, 5.0))]), [1.0])
    a, b = table.to_dict("records")
    assert (a["error_km"], a["at_smallest"], a["reached"]) == (2.0, 5, 0)
    assert (b["error_km"], b["at_smallest"], b["reached"]) == (0.5, 0, 5)


def test_a_mechanism_without_an_attack_does_not_change_the_others() -> None:
    """Such as a mechanism of the full type, which has no error under attacks that need its channel."""
    both = [rows("A", 1.0), rows("B", 0.5), rows("A", 1.0, attack="weak"), rows("B", 0.5, attack="weak")]
    table = at_loss(pd.concat([*both, rows("full", 0.7, attack="weak")]), [1.0])
    markov = table[table["attack"] == "markov"].set_index("lppm")
    assert markov.loc[["A", "B"], "error_km"].tolist() == [1.0, 0.5]
    assert markov["users"].tolist() == [5, 5, 5]
    assert markov["error_km"].isna().tolist() == [False, False, True]
    assert table[table["attack"] == "weak"].set_index("lppm").loc["full", "error_km"] == pytest.approx(0.7)


def test_users_with_a_single_loss_do_not_exclude_a_mechanism() -> None:
    """A user who never moves has the same loss at every point, and P0 = 0."""
    moving, still = USERS[:4], USERS[4:]
    tables = [rows(lppm, slope, users=moving, priors=PRIORS) for lppm, slope in (("A", 0.5), ("B", 0.4))]
    stuck = [rows(lppm, 0.0, losses=(0.0, 0.0, 0.0), users=still, priors=PRIORS) for lppm in "AB"]
    ranking = only(*tables, *stuck)
    assert (ranking.users, ranking.of_users) == (4, 5)


def noisy(lppm: str, mean: float, shared: FloatArray, seed: int, **same: Any) -> pd.DataFrame:
    """Return rows of several replications that shift the error of all users alike, with independent noise."""
    rng = np.random.default_rng(seed)
    tables = [
        rows(lppm, dict(zip(USERS, mean + 0.2 * rng.random(5) + effect, strict=True)), replication=number, **same)
        for number, effect in enumerate(shared)
    ]
    return pd.concat(tables, ignore_index=True)


def test_intervals_at_a_loss_are_over_users_and_replications() -> None:
    """On lines through the origin the value at 1 km is the slope: the interval is that of its two-way table."""
    shared = np.array([0.0, 0.9, -0.5, 0.3])
    tables = [noisy("A", 1.0, shared, 1), noisy("B", 0.5, 0 * shared, 2)]
    a, b = at_loss(pd.concat(tables), [1.0]).to_dict("records")
    slopes = [
        own[own["point"] == 1].pivot(index="user", columns="replication", values="adversary_error_km") for own in tables
    ]
    for values, low, high in (
        (slopes[0], a["error_km_low"], a["error_km_high"]),
        (slopes[1], b["error_km_low"], b["error_km_high"]),
        (slopes[1] - slopes[0], b["difference_km_low"], b["difference_km_high"]),
    ):
        half = plain_half_width(values.to_numpy())
        assert (low, high) == pytest.approx((values.to_numpy().mean() - half, values.to_numpy().mean() + half))
    assert a["error_km_high"] - a["error_km"] > 5 * (b["error_km_high"] - b["error_km"])
    ranking = only(*tables)
    lead, half = ranking.leads_km["B"]
    assert (lead, half) == pytest.approx((-b["difference_km"] * 2, (b["difference_km_high"] - b["difference_km"]) * 2))


def test_deviations_of_replications_follow_losses_and_errors() -> None:
    """Against the values read off curves whose means are shifted by a small part of a replication's deviation."""
    rng = np.random.default_rng(3)
    loss = np.array([0.5, 1.5, 3.0]) + 0.2 * rng.random((6, 3))
    error = 2 * np.sqrt(loss) + 0.3 * rng.random((6, 3))
    table = pd.DataFrame(
        [
            {"lppm": "A", "user": "ann", "point": p, "replication": r, "weight": 1 + (r == 2)}
            | {"quality_loss_km": loss[r, p], "adversary_error_km": error[r, p]}
            for r in range(6)
            for p in range(3)
        ]
    ).reindex(columns=["lppm", "user", "point", "replication", "weight", *MEASURES])
    curve = user_curves(table, ["A"])["A"]["ann"]
    weights = np.array([1, 1, 2, 1, 1, 1]) / 7
    means = weights @ loss, weights @ error
    for at in (1.0, 1.6, 2.9, 9.0):
        expected = []
        for r in range(6):
            step = 1e-6 * 6 * weights[r]
            moved = means[0] + step * (loss[r] - means[0]), means[1] + step * (error[r] - means[1])
            expected.append((np.interp(at, *moved) - np.interp(at, *means)) / 1e-6)
        assert curve.at(at).error == pytest.approx(np.interp(at, *means))
        assert curve.at(at).deviations == pytest.approx(np.array(expected), abs=1e-5)


def test_smoothed_error_and_entropy_are_read_off_at_the_same_loss() -> None:
    table = rows("A", 1.0).assign(smoothed_error_km=lambda own: 0.8 * own["quality_loss_km"])
    table["posterior_entropy_bits"] = 1.0 + table["quality_loss_km"]
    a, b = at_loss(pd.concat([table, rows("B", 0.5)]), [2.5]).to_dict("records")
    assert (a["smoothed_error_km"], a["entropy_bits"]) == pytest.approx((2.0, 3.5))
    assert np.isnan([b["smoothed_error_km"], b["entropy_bits"]]).all()


def test_mechanism_without_a_curve_is_not_compared() -> None:
    table = pd.concat([rows("dot", 1.0, (1.0,)), rows("A", 1.0), rows("B", 0.5)])
    assert at_loss(table, [1.0])["lppm"].tolist() == ["A", "B"]
    with raises_code(RequestError, "no-curve") as error:
        at_loss(table, [1.0], against="dot")
    assert "'dot'" in str(error.value)
    assert "available: A, B" in str(error.value)
    with raises_code(RequestError, "unknown-lppm") as error:
        at_loss(table, [1.0], against="C")
    assert "'C'" in str(error.value)
    assert "available: A, B" in str(error.value)
    with raises_code(RequestError, "no-curve"):
        at_loss(rows("dot", 1.0, (1.0,)), [1.0])
