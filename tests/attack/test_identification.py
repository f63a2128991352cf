"""Identification compared with enumeration of all assignments in tiny worlds, and in whole simulations."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from sim.attack.identification import IdentificationAttack
from sim.attack.optimal import HiddenChannel, OptimalAttack
from sim.belief.markov_filter import MarkovFilter
from sim.errors import UserError
from sim.events import Report
from sim.execution.adversary_knowledge import known_statistics
from sim.interfaces import FloatArray
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.matrix import MatrixChannel
from sim.mobility.statistics import Statistics, regimes, statistics
from sim.mobility.traces import Trace
from sim.scenario.consistency import findings
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import ScenarioError
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from sim.world.distance import Distance
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.support import MakeScenario, assert_fault, made, raises_code

DAY_S = 86_400


def of(cells: list[int], n: int) -> Statistics:
    return statistics([Trace("x", np.arange(len(cells)), np.array(cells))], n_cells=n)


def spread(statistics: Statistics, anywhere: float) -> tuple[FloatArray, FloatArray]:
    n = statistics.n_cells
    return tuple((1 - anywhere) * part + anywhere / n for part in (statistics.start_profile, statistics.transition))  # type: ignore[return-value]


def joint(model: str, candidate: Statistics, anywhere: float, rows: FloatArray) -> FloatArray:
    """Return p(reports, last cell) under one candidate by summing over all paths."""
    start, transition = spread(candidate, anywhere)
    table = np.zeros(candidate.n_cells)
    for path in itertools.product(range(candidate.n_cells), repeat=len(rows)):
        p = 1.0
        for r, (row, x) in enumerate(zip(rows, path, strict=True)):
            p *= row[x] * (start[x] if r == 0 or model == "sporadic" else transition[path[r - 1], x])
        table[path[-1]] += p
    return table


LINE = manhattan(Grid.rectangle(rows=1, cols=2, width_km=2.0, height_km=1.0))
SQUARE = manhattan(Grid.rectangle(rows=2, cols=2, width_km=2.0, height_km=2.0))
CANDIDATES = {
    2: {"ann": of([0, 0, 0, 1, 0], 2), "bob": of([1, 0, 1, 1, 1], 2)},
    4: {"ann": of([0, 0, 1, 0, 3], 4), "bob": of([1, 2, 3, 2, 1], 4), "eve": of([3, 3, 0, 0, 1], 4)},
}


def blurred(n: int, seed: int) -> MatrixChannel:
    return MatrixChannel(np.random.default_rng(seed).dirichlet(np.full(n, 0.7), size=n))


@pytest.mark.parametrize("model", ["sporadic", "markov"])
@pytest.mark.parametrize("anywhere", [0.0, 0.1])
@pytest.mark.parametrize(("distance", "streams", "reports"), [(LINE, 2, 2), (SQUARE, 3, 3)])
def test_identities_and_posteriors_equal_enumeration(
    model: Any, anywhere: float, distance: Distance, streams: int, reports: int
) -> None:
    """After every report, enumerate all assignments and sum over all paths for the posterior over cells."""
    n = distance.n_cells
    known = CANDIDATES[n]
    names = list(known)
    rng = np.random.default_rng(7)
    for attempt in range(6):
        channel = blurred(n, attempt)
        one, alone = (
            made(
                IdentificationAttack,
                model=model,
                matching=matching,
                anywhere=anywhere,
                candidates={name: [(1, candidate)] for name, candidate in known.items()},
                distance=distance,
                with_posterior=True,
            )
            for matching in ("one_to_one", "independent")
        )
        seen: dict[str, list[FloatArray]] = {}
        for index, stream in itertools.product(range(1, reports + 1), range(streams)):
            output = int(rng.integers(n))
            seen.setdefault(f"p{stream}", []).append(channel.likelihood(output))
            report = Report(f"p{stream}", index, index, output, channel)
            guess, independent = one.observe(report), alone.observe(report)
            tables = {
                p: [joint(model, candidate, anywhere, np.array(rows)) for candidate in known.values()]
                for p, rows in seen.items()
            }
            logs = {p: np.log([table.sum() for table in each]) for p, each in tables.items()}
            scores = {
                assigned: sum(logs[p][c] for p, c in zip(seen, assigned, strict=True))
                for assigned in itertools.permutations(range(len(names)), len(seen))
            }
            row, limit = list(seen).index(report.user), max(scores.values()) - 1e-9
            assert guess.identity in {names[best[row]] for best, score in scores.items() if score > limit}
            assert independent.identity is not None
            assert logs[report.user][names.index(independent.identity)] == pytest.approx(max(logs[report.user]))
            mixed = np.sum(tables[report.user], axis=0)
            assert guess.posterior == pytest.approx(mixed / mixed.sum())
            costs = mixed @ distance.matrix_km
            assert costs[guess.estimate] == pytest.approx(costs.min())
            assert independent.estimate == guess.estimate


def test_one_to_one_assigns_two_streams_to_two_users() -> None:
    """Both streams are most likely ann, the first more so: independently both are ann, one-to-one the second is bob."""
    known = {"ann": [(1, of([0, 0, 0, 1], 2))], "bob": [(1, of([0, 0, 1, 1], 2))]}
    channel = MatrixChannel(np.eye(2))
    for matching, second in (("one_to_one", "bob"), ("independent", "ann")):
        attack = made(IdentificationAttack, matching=matching, candidates=known, distance=LINE)
        for index in (1, 2, 3):
            assert attack.observe(Report("p1", index, index, 0, channel)).identity == "ann"
        assert attack.observe(Report("p2", 1, 4, 0, channel)).identity == second


def test_more_streams_than_candidates_all_get_an_identity() -> None:
    attack = made(IdentificationAttack, candidates={"ann": [(1, of([0, 1], 2))]}, distance=LINE)
    channel = MatrixChannel(np.eye(2))
    identities = [attack.observe(Report(name, 1, 1, 0, channel)).identity for name in ("p1", "p2", "p3")]
    assert identities == ["ann"] * 3


def test_report_impossible_under_all_candidates_does_not_change_the_identity() -> None:
    known = {"ann": [(1, of([0, 0], 4))], "bob": [(1, of([1, 1], 4))]}
    for model in ("sporadic", "markov"):
        attack = made(IdentificationAttack, anywhere=0.0, model=model, candidates=known, distance=SQUARE)
        certain = MatrixChannel(np.eye(4))
        assert attack.observe(Report("p1", 1, 0, 1, certain)).identity == "bob"
        impossible = attack.observe(Report("p1", 2, 1, 3, certain))
        assert (impossible.identity, impossible.estimate) == ("bob", 3)
        assert attack.fallbacks == 1
        assert attack.observe(Report("p1", 3, 2, 1, certain)).identity == "bob"


@pytest.mark.parametrize("restart_s", [None, DAY_S])
def test_one_candidate_equals_the_markov_attack(restart_s: int | None) -> None:
    candidate = CANDIDATES[4]["bob"]
    one = made(
        IdentificationAttack,
        model="markov",
        anywhere=0.0,
        candidates={"bob": [(1, candidate)]},
        distance=SQUARE,
        restart_s=restart_s,
        all_outputs=True,
        with_posterior=True,
    )
    belief = MarkovFilter(start_profile=candidate.start_profile, transition=candidate.transition, restart_s=restart_s)
    plain = OptimalAttack(belief_of=lambda _: belief, distance=SQUARE, all_outputs=True, with_posterior=True)
    # All transitions from 3 lead to 2. The sharp channel reveals 3 and then 0 or 1: the filter restarts, in 1.
    sharp = MatrixChannel(np.array([[0.4, 0.6, 0, 0], [0.7, 0.3, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]]))
    blunt = exponential(SQUARE, 1.0)
    channels = [blunt, blunt, blunt, blunt, sharp, sharp, blunt, sharp, sharp]
    for index, (output, channel) in enumerate(zip([0, 3, 3, 1, 3, 1, 0, 3, 0], channels, strict=True), start=1):
        report = Report("p1", index, index * DAY_S // 3, output, channel)
        guess, expected = one.observe(report), plain.observe(report)
        assert guess.estimate == expected.estimate
        assert guess.estimate_by_output is not None
        assert expected.estimate_by_output is not None
        assert guess.estimate_by_output.tolist() == expected.estimate_by_output.tolist()
        assert guess.posterior == pytest.approx(expected.posterior)
    assert one.fallbacks == plain.fallbacks
    assert one.fallbacks > 0 or restart_s is not None


def test_identification_uses_the_statistics_in_force() -> None:
    """Ann moves from cell 0 to 1 at the third query and bob from 1 to 0, so that their profiles are exchanged."""
    times, cells = np.arange(6), np.array([0, 0, 1, 1, 1, 1])
    known = {
        "ann": regimes(Trace("ann", times, cells), [3], n_cells=2),
        "bob": regimes(Trace("bob", times, 1 - cells), [3], n_cells=2),
        "eve": [(1, of([0, 1], 2))],
    }
    for model in ("sporadic", "markov"):
        attack = made(IdentificationAttack, model=model, candidates=known, distance=LINE)
        channel = exponential(LINE, 3.0)
        identities = [
            attack.observe(Report("p1", index, index, output, channel)).identity
            for index, output in enumerate([0, 0, 1, 1, 1], start=1)
        ]
        assert identities[-1] == "ann"


def test_report_without_a_channel_is_rejected() -> None:
    attack = made(IdentificationAttack, candidates={"ann": [(1, of([0, 1], 2))]}, distance=LINE)
    with raises_code(HiddenChannel, "no-channel"):
        attack.observe(Report("p1", 1, 0, 0, None))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"candidates": {}}, r"^candidates .*got 0"),
        ({"model": "gravity"}, r"(?s)model.*input_value='gravity'"),
        ({"matching": "all"}, r"(?s)matching.*input_value='all'"),
        ({"anywhere": 1.5}, r"(?s)anywhere.*input_value=1.5"),
    ],
)
def test_invalid_parameters_are_rejected_with_their_value(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        made(IdentificationAttack, **{"candidates": {"ann": [(1, of([0, 1], 2))]}, "distance": LINE, **arguments})


# Whole simulations -----------------------------------------------------------------------------------------------

IDENTIFICATIONS = ["identification", "identification-markov"]


def events(scenario: Scenario, folder: Path) -> pd.DataFrame:
    frame = sim.run(scenario, out=folder, figures=False, allow_code=bool(scenario.own_components())).events()
    return frame[frame["event"] == "query"].sort_values(["attack", "lppm", "user", "index"], ignore_index=True)


def test_hidden_names_do_not_affect_attacks_without_names(make_scenario: MakeScenario, tmp_path: Path) -> None:
    """Identification and attacks with pooled training are bitwise equal whether names are known or hidden."""
    attacks = [*IDENTIFICATIONS, "sporadic-trained", "home", "markov-learning", "face-value"]
    known, hidden = (
        events(make_scenario(attacks=attacks, lppms=["SP-Exp"], names=names), tmp_path / names)
        for names in ("known", "hidden")
    )
    pd.testing.assert_frame_equal(known, hidden)
    named = hidden[hidden["attack"].isin(IDENTIFICATIONS)]
    assert set(named["identity"]) <= set(hidden["user"])
    assert hidden.loc[~hidden["attack"].isin(IDENTIFICATIONS), "identity"].isna().all()
    late = named[named["index"] > 15]
    assert (late["identity"] == late["user"]).mean() > 0.9
    assert named["expected_adversary_error_km"].notna().all()


@pytest.mark.parametrize("names", ["known", "hidden"])
def test_indistinguishable_users_are_identified_at_random(
    make_scenario: MakeScenario, tmp_path: Path, names: str
) -> None:
    """All users query at the same times and reports are uninformative: the order must not leak identities."""
    scenario = make_scenario(
        names=names,
        replications=6,
        world={"grid": {"kind": "rectangle", "rows": 2, "cols": 2, "width_km": 2, "height_km": 2}, "roads": "lattice"},
        users={"count": 6, "queries": 2, "mobility": "commuters", "demand": {"kind": "periodic", "period_s": 3600}},
        lppms=[{"kind": "Exp", "design": {"epsilon_per_km": 0.0}}],
        attacks=["identification", {"kind": "identification", "name": "alone", "matching": "independent"}],
    )
    named = events(scenario, tmp_path)
    assert named.groupby("attack")["time_s"].nunique().eq(2).all()
    shares = (named["identity"] == named["user"]).groupby(named["attack"]).mean()
    assert (shares < 0.45).all()


def test_statistics_of_pseudonyms_do_not_reveal_names(make_scenario: MakeScenario) -> None:
    for seed in range(5):
        scenario = make_scenario(attacks=["sporadic-trained"], names="hidden", seed=seed)
        population = Population(Setting(scenario), 0)
        assert population.pseudonyms is not None
        known = known_statistics(scenario.attacks[0], population)
        assert list(known) == sorted(population.pseudonyms.values())
        assert len({id(statistics) for statistics in known.values()}) == 1


CUSTOM = """
from sim.events import Guess


class Lookup:
    def __init__(self, *, world, statistics_of):
        self.statistics_of = statistics_of
        assert len(statistics_of.users) == 3

    def observe(self, report):
        profile = self.statistics_of(report.user).profile
        return Guess(report.user, report.index, int(profile.argmax()), identity=self.statistics_of.users[0])
"""


def test_custom_attack_with_hidden_names_gets_pooled_statistics_only(
    make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "custom_lookup.py").write_text(CUSTOM)
    monkeypatch.chdir(tmp_path)
    custom = {"kind": "custom_lookup:Lookup", "name": "custom"}
    pooled = events(
        make_scenario(attacks=[custom | {"knows": "training"}], lppms=["SP-Exp"], names="hidden"), tmp_path / "pooled"
    )
    assert pooled["estimate"].nunique() == 1
    with pytest.raises(UserError, match=r"statistics_of\('p\d'\).*`statistics_of\.users`"):
        events(make_scenario(attacks=[custom], lppms=["SP-Exp"], names="hidden"), tmp_path / "test")


@pytest.mark.parametrize(
    ("attack", "knowledge"),
    [
        ("sporadic", "`knows: test`"),
        ({"kind": "markov", "knows": "whole_test"}, "`knows: whole_test`"),
        ({"name": "x", "belief": "home"}, "`knows: test`"),
        ({"kind": "sporadic-trained", "training": "own"}, "the training set own, of kind own_past"),
    ],
)
def test_attacks_that_know_users_by_name_are_rejected_if_names_are_hidden(
    attack: Any, knowledge: str, make_scenario: MakeScenario, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {
        "users": {"count": 2, "queries": 4, "past_queries": 4, "mobility": "favourites"},
        "training": {"others": {"kind": "others", "count": 2}, "own": "own_past"},
    }
    scenario = make_scenario(
        attacks=["identification", "sporadic-trained", attack | {"name": "y"} if isinstance(attack, dict) else attack],
        names="hidden",
        **changes,
    )
    with pytest.raises(ScenarioError) as error:
        sim.run(scenario, out=tmp_path / "run", figures=False)
    (fault,) = error.value.faults
    assert_fault(fault, "attacks.2 [attack-needs-names]", f"found {knowledge}", "identification")
    assert list(findings(make_scenario(attacks=[attack], **changes).model_dump(mode="json"))) == []


def test_invalid_attacks_are_not_reported_again_if_names_are_hidden() -> None:
    wrong = ["identificaton", {"kind": 3}, {"kind": ["a"]}]
    assert list(findings({"names": "hidden", "attacks": wrong})) == []


def test_default_attacks_are_rejected_if_names_are_hidden() -> None:
    (finding,) = findings({"names": "hidden"})
    assert (finding.loc, finding.code) == (("names",), "attack-needs-names")
    assert "sporadic and markov" in finding.message
