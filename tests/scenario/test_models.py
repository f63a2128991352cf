"""The scenario model: equal scenarios in any notation have equal digests, different ones have different digests."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from sim.attack import bayesian, identification
from sim.attack.bayesian import BayesianParameters
from sim.attack.hindsight import Hindsight
from sim.components.registry import FAMILIES
from sim.scenario.consistency import findings
from sim.scenario.lppms import short_names
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import Loc
from sim.scenario.reading.paths import assign
from sim.scenario.reading.source import parse_text
from sim.scenario.reference import listing
from tests.support import MakeScenario, raises_code

LONG_FORMS = {
    "SP-LH": ("fixed_profile", {"kind": "location_hiding"}),
    "SP-Exp": ("fixed_profile", {"kind": "exponential"}),
    "MK-LH": ("markov_filter", {"kind": "location_hiding"}),
    "MK-Exp": ("markov_filter", {"kind": "exponential"}),
    "PEB-LH": ("estimated_profile", {"kind": "location_hiding"}),
    "PEB-Exp": ("estimated_profile", {"kind": "exponential"}),
    "RPEB-LH": ("recursive_profile", {"kind": "location_hiding"}),
    "RPEB-Exp": ("recursive_profile", {"kind": "exponential"}),
    "PEB-MK-LH": ("gravity_filter", {"kind": "location_hiding"}),
    "PEB-MK-Exp": ("gravity_filter", {"kind": "exponential"}),
    "SP-Mix": ("fixed_profile", {"kind": "exponential", "reveal_probability": 0.3}),
    "SP-Coin": ("fixed_profile", {"kind": "coin"}),
    "MK-Mix": ("markov_filter", {"kind": "exponential", "reveal_probability": 0.3}),
    "MK-Coin": ("markov_filter", {"kind": "coin"}),
    "PEB-Mix": ("estimated_profile", {"kind": "exponential", "reveal_probability": 0.3}),
    "PEB-Coin": ("estimated_profile", {"kind": "coin"}),
    "RPEB-Mix": ("recursive_profile", {"kind": "exponential", "reveal_probability": 0.3}),
    "RPEB-Coin": ("recursive_profile", {"kind": "coin"}),
    "PEB-MK-Mix": ("gravity_filter", {"kind": "exponential", "reveal_probability": 0.3}),
    "PEB-MK-Coin": ("gravity_filter", {"kind": "coin"}),
    "SP-Opt": ("fixed_profile", {"kind": "optimal_privacy"}),
    "MK-Opt": ("markov_filter", {"kind": "optimal_privacy"}),
    "PEB-Opt": ("estimated_profile", {"kind": "optimal_privacy"}),
    "SP-GeoOpt": ("fixed_profile", {"kind": "optimal_quality"}),
    "PEB-GeoOpt": ("estimated_profile", {"kind": "optimal_quality"}),
    "SP-PL": ("fixed_profile", {"kind": "planar_laplace"}),
    "PEB-PL": ("estimated_profile", {"kind": "planar_laplace"}),
    "SP-PG": ("fixed_profile", {"kind": "planar_geometric"}),
    "PEB-PG": ("estimated_profile", {"kind": "planar_geometric"}),
    "PL": ("fixed_profile", {"kind": "planar_laplace", "remap": False}),
    "PG": ("fixed_profile", {"kind": "planar_geometric", "remap": False}),
    "LH": ("fixed_profile", {"kind": "location_hiding", "remap": False}),
    "Exp": ("fixed_profile", {"kind": "exponential", "remap": False}),
    "SP-Cloak": ("fixed_profile", {"kind": "cloaking"}),
    "SP-Snap": ("fixed_profile", {"kind": "snapping"}),
    "Snap": ("fixed_profile", {"kind": "snapping", "remap": False}),
    "PEB-full-LH": ("estimated_profile", {"kind": "location_hiding"}),
    "PEB-full-Exp": ("estimated_profile", {"kind": "exponential"}),
    **{
        f"{short}-AMix": (belief, {"kind": "exponential", "coin_share": 0.5})
        for short, belief in {
            "SP": "fixed_profile",
            "MK": "markov_filter",
            "PEB": "estimated_profile",
            "RPEB": "recursive_profile",
            "PEB-MK": "gravity_filter",
        }.items()
    },
    "ConstantOffset": ("fixed_profile", {"kind": "constant_offset"}),
    "DailyOffset": ("fixed_profile", {"kind": "daily_offset"}),
    "DriftingOffset": ("fixed_profile", {"kind": "drifting_offset"}),
    "Drop": ("fixed_profile", {"kind": "dropping"}),
    "Dummies": ("fixed_profile", {"kind": "dummies"}),
    "identity": ("fixed_profile", {"kind": "identity"}),
}


@pytest.mark.parametrize("short", LONG_FORMS)
def test_a_short_name_equals_its_long_form(short: str, make_scenario: MakeScenario) -> None:
    belief, design = LONG_FORMS[short]
    long: dict[str, Any] = {"name": short, "belief": {"kind": belief}, "design": design}
    long |= {"learns_from": "cells"} if "full" in short else {}
    expected = make_scenario(lppms=[long])
    for writing in (short, {"kind": short}, {"kind": short, "name": short}, long | {"belief": belief}):
        scenario = make_scenario(lppms=[writing])
        assert scenario.canonical() == expected.canonical()
        assert scenario.digest == expected.digest


def test_every_short_name_is_tested_and_listed() -> None:
    assert set(LONG_FORMS) == set(short_names()) == set(listing()["lppm"][1])
    assert set(LONG_ATTACKS) == set(bayesian.SHORT_NAMES) == set(get_args(bayesian.ShortName))
    assert set(listing()["attack"][1]) == {*bayesian.SHORT_NAMES, *identification.SHORT_NAMES, "face-value"}


LONG_ATTACKS: dict[str, dict[str, Any]] = {
    "sporadic": {"belief": "fixed_profile"},
    "markov": {"belief": "markov_filter", "decides": "optimal", "hindsight": None, "assumes": None},
    "sporadic-trained": {"belief": "fixed_profile", "knows": "training"},
    "markov-trained": {"belief": "markov_filter", "knows": "training"},
    "sporadic-learning": {"belief": "estimated_profile", "knows": "training"},
    "smoothing": {"belief": "markov_filter", "hindsight": {"lags": [1, 5], "final": True}},
    "smoothing-trained": {"belief": "markov_filter", "knows": "training", "hindsight": {}},
    "path": {"belief": "markov_filter", "decides": "path", "hindsight": {"lags": [1, 5]}},
    "path-trained": {"belief": "markov_filter", "knows": "training", "decides": "path", "hindsight": {"final": True}},
    "markov-learning": {"belief": "markov_em", "knows": "training"},
    "home": {"belief": "home", "knows": "training"},
}


@pytest.mark.parametrize("short", bayesian.SHORT_NAMES)
def test_a_short_attack_equals_its_long_form(short: str, make_scenario: MakeScenario) -> None:
    expected = make_scenario(attacks=[{"name": short, **LONG_ATTACKS[short]}])
    assert make_scenario(attacks=[short]).canonical() == expected.canonical()
    assert make_scenario(attacks=[short]).digest != make_scenario(attacks=[{"kind": "markov", "name": "x"}]).digest


def test_the_canonical_form_omits_options_added_later(make_scenario: MakeScenario) -> None:
    """Scenarios of earlier versions keep their digest."""
    added = {"decides", "hindsight", "assumes", "ignores_memory"}
    assert not added & json.loads(make_scenario().canonical())["attacks"][0].keys()


def test_hindsight_of_a_short_name_can_be_changed(make_scenario: MakeScenario) -> None:
    (attack,) = make_scenario(attacks=[{"kind": "path", "hindsight": {"lags": [3]}}]).attacks
    assert isinstance(attack, BayesianParameters)
    assert attack.hindsight is not None
    assert (attack.decides, attack.hindsight.lags, attack.hindsight.final) == ("path", [3], True)


@pytest.mark.parametrize("option", [{"hindsight": {}}, {"decides": "path"}])
def test_hindsight_and_paths_need_a_filter(option: dict[str, Any], make_scenario: MakeScenario) -> None:
    with pytest.raises(ValidationError, match=r"markov_filter.*'fixed_profile'"):
        make_scenario(attacks=[{"name": "x", "belief": "fixed_profile", **option}])


@pytest.mark.parametrize("learns_from", ["cells", "disclosed_cells"])
def test_a_belief_that_does_not_learn_cannot_learn_from_cells(learns_from: str, make_scenario: MakeScenario) -> None:
    with raises_code(ValidationError, "belief-does-not-learn") as error:
        make_scenario(lppms=[{"kind": "SP-Exp", "learns_from": learns_from}])
    assert f"`learns_from: {learns_from}`" in str(error.value)
    assert "fixed_profile" in str(error.value)


def test_attacks_on_the_full_type_need_no_channel(make_scenario: MakeScenario) -> None:
    attacks: list[Any] = ["sporadic", "smoothing", "face-value", {"kind": "markov", "name": "m", "assumes": "identity"}]
    disclosed = {"kind": "PEB-Exp", "name": "ceiling", "learns_from": "disclosed_cells"}
    lppms: list[Any] = ["SP-Exp", {"kind": "PEB-Exp", "learns_from": "cells"}, disclosed]
    scenario = make_scenario(attacks=attacks, lppms=lppms)
    known, hidden, ceiling = ([attack.name for attack in scenario.attacks_on(lppm)] for lppm in scenario.lppms)
    assert known == ["sporadic", "smoothing", "face-value", "m"]
    assert hidden == ["face-value", "m"]
    assert ceiling == known
    assert scenario.attacks[2].is_memoryless


@pytest.mark.parametrize("queries", [1, 2, 5, 6, 30])
@pytest.mark.parametrize("final", [True, False])
def test_the_number_of_revised_guesses_is_known_in_advance(queries: int, final: bool) -> None:
    pairs = {(r, r - lag) for r in range(1, queries + 1) for lag in (1, 5) if r > lag}
    pairs |= {(queries, s) for s in range(1, queries)} if final else set()
    assert Hindsight(final=final).guesses(queries) == len(pairs)


def test_the_digest_of_an_identification_depends_on_its_model(make_scenario: MakeScenario) -> None:
    short = make_scenario(attacks=["identification-markov"])
    long = {"kind": "identification", "model": "markov", "name": "identification-markov"}
    assert make_scenario(attacks=[long]).canonical() == short.canonical()
    assert make_scenario(attacks=[long | {"model": "sporadic"}]).digest != short.digest
    (attack,) = make_scenario(attacks=[{"kind": "identification", "matching": "independent"}]).attacks
    assert (attack.name, attack.model_dump()["model"]) == ("identification", "sporadic")
    assert not attack.is_memoryless


def test_a_short_name_can_have_further_keys(make_scenario: MakeScenario) -> None:
    lppm: dict[str, Any] = {
        "kind": "PEB-Exp",
        "name": "x",
        "belief": {"fading": 0.1},
        "design": {"quality_budget_km": 2},
    }
    (made,) = make_scenario(lppms=[lppm]).lppms
    dump = made.model_dump()
    assert (made.name, made.belief.kind, made.design.kind) == ("x", "estimated_profile", "exponential")
    assert (dump["belief"]["fading"], dump["design"]["quality_budget_km"]) == (0.1, 2)
    (attack,) = make_scenario(attacks=[{"kind": "markov", "knows": "training", "training": "others"}]).attacks
    assert (attack.knows, attack.training) == ("training", "others")
    assert lppm == {"kind": "PEB-Exp", "name": "x", "belief": {"fading": 0.1}, "design": {"quality_budget_km": 2}}


# ------------------------------------------------------------------------------------------------ digest

FULL: dict[str, Any] = {
    "name": "full",
    "world": {
        "grid": {"kind": "rectangle", "rows": 4, "cols": 5, "width_km": 5.0, "height_km": 4.0},
        "roads": "lattice",
    },
    "users": {
        "count": 4,
        "days": 2.0,
        "past_days": 2.0,
        "mobility": {"kind": "favourites"},
        "demand": {"kind": "poisson"},
    },
    "shifts": [
        {"kind": "relocate", "at_day": 0.5, "over_queries": 3, "weight": 0.5},
        {"kind": "holiday", "at_query": 3, "for_queries": 4},
        {"kind": "close_roads", "at_day": 1.0, "cells": [3]},
        {"kind": "rate", "at_query": 4, "factor": 2.0, "share": 0.5, "for_days": 1.0},
    ],
    "training": {
        "z": {"kind": "others", "mobility": "markov", "demand": "periodic", "count": 3, "days": 3.0},
        "y": {"kind": "others", "mobility": {"kind": "commuters"}, "queries": 9},
        "x": {"kind": "others", "mobility": {"kind": "taxis"}},
        "own": {"kind": "own_past", "days": 1.0, "queries": 7},
        "other": {"kind": "other_user", "days": 1.0, "queries": 7},
        "rest": {"kind": "other_users", "days": 1.0, "queries": 7},
        "both": {"kind": "own_and_others", "own": "own", "others": "rest", "pseudo_counts": 3.0,
                 "independent_share": 0.5},
    },
    "lppms": [
        {"kind": "PEB-Exp", "belief": {"max_iterations": 9}, "design": {"epsilon_per_km": 1.0}},
        {"kind": "SP-LH", "design": {"reveal_probability": 0.4}, "training": "own"},
        {"kind": "MK-Exp", "design": {"quality_budget_km": 0.4}},
    ],
    "attacks": ["sporadic", {"kind": "markov-trained", "training": "own"}],
    "sweep": {"seed": [1, 2]},
}  # fmt: skip

OTHER_TEXT = {"markov_restart": "daily", "initial": "uniform", "solver": "em", "start": "initial", "training": "other"}


def leaves(data: Any, loc: Loc = ()) -> Iterator[tuple[Loc, Any]]:
    """Yield location and value of every scalar."""
    if isinstance(data, dict | list):
        for step, child in data.items() if isinstance(data, dict) else enumerate(data):
            yield from leaves(child, (*loc, step))
    else:
        yield loc, data


def another(loc: Loc, value: Any) -> Any:
    """Return another valid value for a location; None for names, kinds and null."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2 if value else 0.5
    return None if value is None else OTHER_TEXT.get(str(loc[-1]))


def test_the_digest_changes_with_any_value() -> None:
    scenario = Scenario.model_validate(FULL)
    data = json.loads(scenario.canonical())
    assert Scenario.model_validate(data).digest == scenario.digest
    changes = {loc: other for loc, value in leaves(data) if (other := another(loc, value)) is not None}
    digests = {Scenario.model_validate(assign(data, loc, other)).digest for loc, other in changes.items()}
    assert len(changes) > 60
    assert len(digests | {scenario.digest}) == len(changes) + 1, "each change has another digest"


def test_the_digest_changes_with_kinds_and_names(make_scenario: MakeScenario) -> None:
    base = make_scenario()
    grid = base.world.grid.model_dump()
    variants = [
        make_scenario(world={"grid": grid, "privacy_distance": "euclidean"}),
        make_scenario(world={"grid": grid, "quality_distance": "euclidean"}),
        make_scenario(lppms=["SP-Exp", "SP-LH"]),
        make_scenario(lppms=["PEB-LH", "SP-Exp"]),
        make_scenario(lppms=["SP-Exp", {"kind": "PEB-LH", "name": "b"}]),
        make_scenario(attacks=["sporadic"]),
        make_scenario(training={"strangers": base.training["others"].model_dump()}),
        make_scenario(sweep={"seed": [1]}),
        make_scenario(sweep={"seed": [2]}),
        make_scenario(sweep={"users.count": [1]}),
    ]
    assert len({scenario.digest for scenario in [base, *variants]}) == 1 + len(variants)


def test_the_digest_does_not_depend_on_the_notation() -> None:
    block = """
        # A comment.
        users:
          mobility:
            kind: favourites
            places: 3
          queries: 10
        lppms:
        - SP-Exp
        - kind: PEB-Exp
          design: {epsilon_per_km: 1.0}
        sweep:
          seed: [1, 2]
          users.count: [3, 4]
        """
    flow = """{sweep: {"users.count": [3, 4], seed: [0x1, 2]}, seed: 1, world: {},
        lppms: [{kind: SP-Exp}, {design: {kind: exponential, epsilon_per_km: 1}, kind: "PEB-Exp"}],
        users: {queries: 10, demand: every_visit, mobility: {places: 3, kind: 'favourites', explore: 1e-1}}}"""
    one, two = (Scenario.model_validate(parse_text(text, "f").data) for text in (block, flow))
    assert one.digest == two.digest
    assert one.canonical() == two.canonical()


def test_the_digest_does_not_depend_on_name_and_description(make_scenario: MakeScenario) -> None:
    assert make_scenario().digest == make_scenario(name="other", description="Other.").digest


def test_the_digest_depends_on_the_first_training_set(make_scenario: MakeScenario) -> None:
    sets = {"a": {"kind": "nothing"}, "b": {"kind": "others", "count": 2}}
    reverse = dict(reversed(sets.items()))
    assert make_scenario(training=sets).digest != make_scenario(training=reverse).digest
    named = [{"kind": "SP-Exp", "training": "b"}]
    one, two = (make_scenario(training=order, lppms=named) for order in (sets, reverse))
    assert one.digest == two.digest, "the order does not matter if no component uses the default"


def test_the_canonical_form_contains_all_defaults_and_can_be_read(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(lppms=["PEB-Exp"], attacks=["markov-trained", "sporadic"])
    data = json.loads(scenario.canonical())
    assert data["lppms"][0]["belief"]["fading"] == 0.5
    assert data["lppms"][0]["training"] == "others"
    assert [attack["training"] for attack in data["attacks"]] == ["others", None]
    assert data["record"]["snapshots"] == [1, 10, 30, 100, 300]
    assert Scenario.model_validate(data).canonical() == scenario.canonical()
    assert scenario.canonical(only=frozenset({"seed"})) == '{"seed": 3}'


# ------------------------------------------------------------------------------------------------ the rest


def test_files_of_all_parts_are_listed(make_scenario: MakeScenario) -> None:
    replay: dict[str, Any] = {"kind": "replay", "file": "users.csv"}
    scenario = make_scenario(
        world={
            "roads": {"kind": "csv", "nodes": "nodes.csv", "edges": "edges.csv"},
            "privacy_distance": {"kind": "matrix", "file": "data:d.npy"},
        },
        users={"mobility": replay},
        training={"t": {"kind": "others", "mobility": replay | {"file": "others.csv"}}, "n": "nothing"},
    )
    assert scenario.files() == ["data:d.npy", "edges.csv", "nodes.csv", "others.csv", "users.csv"]


def test_a_scenario_is_immutable(make_scenario: MakeScenario) -> None:
    scenario = make_scenario()
    with pytest.raises(ValidationError, match="frozen"):
        scenario.seed = 4  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        scenario.lppms[0].name = "x"  # type: ignore[misc]


def test_validation_does_not_change_its_input() -> None:
    data = copy.deepcopy(FULL)
    Scenario.model_validate(data)
    assert data == FULL


def test_markov_models_restart_daily_or_never(make_scenario: MakeScenario) -> None:
    assert make_scenario().restart_s is None
    assert make_scenario(markov_restart="daily").restart_s == 86_400


def test_the_digest_does_not_depend_on_the_folder(make_scenario: MakeScenario, tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    scenario = make_scenario()
    digest = scenario.digest
    assert scenario.at(tmp_path, None).locate("a.csv") == tmp_path / "a.csv"
    assert scenario.digest == digest
    with pytest.raises(ValueError, match=r"'b\.csv'"):
        scenario.locate("b.csv")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_kind_is_listed_with_a_sentence(family: str) -> None:
    _, kinds = listing()[family]
    assert len(kinds) >= 3
    for kind, line in kinds.items():
        assert kind
        assert line.endswith(".")


@pytest.mark.parametrize(
    ("replications", "words"),
    [
        ({"until_half_width_km": 0.02, "at_most": 3}, "`at_least`, which is 5 by default, found 3"),
        ({"until_half_width_km": 0.02, "at_least": 9, "at_most": 8}, "`at_least`, which is 9, found 8"),
        ({"until_half_width_km": 0.02, "at_least": 1, "at_most": 8}, "greater than or equal to 2"),
        ({"until_half_width_km": 0, "at_most": 8}, "greater than or equal to 0.000001"),
        ({"until_half_width_km": 0.02}, "at_most"),
        ({"at_most": 8}, "until_half_width_km"),
    ],
)  # fmt: skip
def test_the_limits_of_the_number_of_replications_are_validated(
    replications: dict[str, Any], words: str, make_scenario: MakeScenario
) -> None:
    with pytest.raises(ValidationError) as error:
        make_scenario(replications=replications)
    assert words in str(error.value)


def test_the_canonical_form_keeps_a_fixed_number_of_replications(make_scenario: MakeScenario) -> None:
    assert json.loads(make_scenario(replications=7).canonical())["replications"] == 7
    adaptive = make_scenario(replications={"until_half_width_km": 0.02, "at_most": 9})
    assert json.loads(adaptive.canonical())["replications"] == {
        "until_half_width_km": 0.02,
        "at_least": 5,
        "at_most": 9,
    }
    assert Scenario.model_validate(json.loads(adaptive.canonical())).digest == adaptive.digest


# ------------------------------------------------------------------------------------------------ shifts


def test_the_default_name_of_a_shift_is_its_kind(make_scenario: MakeScenario) -> None:
    shifts = [{"kind": "new_places", "at_query": 3}, {"kind": "adopt", "name": "like bob", "at_query": 4}]
    scenario = make_scenario(shifts=shifts)
    assert [shift.name for shift in scenario.shifts] == ["new_places", "like bob"]
    named = make_scenario(shifts=[shifts[0] | {"name": "new_places"}, shifts[1]])
    assert named.digest == scenario.digest


def test_the_canonical_form_omits_an_empty_list_of_shifts(make_scenario: MakeScenario) -> None:
    assert make_scenario(shifts=[]).canonical() == make_scenario().canonical()
    assert "shifts" not in make_scenario().canonical()
    assert "shifts" in make_scenario(shifts=[{"kind": "new_places", "at_query": 3}]).canonical()


def test_a_scenario_with_shifts_is_repeated(make_scenario: MakeScenario, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user,order,cell\n" + "".join(f"a,{i},{i % 5}\n" for i in range(9)))
    users = {"mobility": {"kind": "replay", "file": str(tmp_path / "t.csv")}}
    parts: dict[str, Any] = {"users": users, "training": {}, "attacks": ["sporadic"], "lppms": ["SP-Exp"]}
    plain, shifted = make_scenario(**parts), make_scenario(**parts, shifts=[{"kind": "relocate", "at_query": 3}])
    assert [scenario.is_exact(scenario.lppms[0]) for scenario in (plain, shifted)] == [True, False]


@pytest.mark.parametrize("lppm", ["PEB-full-Exp", {"kind": "PEB-full-LH"}, {"kind": "PEB-Exp", "learns_from": "cells"}])
def test_a_full_type_lppm_without_an_applicable_attack_is_refused(lppm: Any) -> None:
    """The rule holds for short names before they are expanded."""
    (finding,) = findings({"lppms": [lppm], "attacks": ["sporadic"]})
    assert finding.loc[:2] == ("lppms", 0)
    assert finding.code == "no-applicable-attack"


def test_a_scenario_can_be_read_from_its_canonical_form(make_scenario: MakeScenario) -> None:
    """The form in manifests contains all defaults, which must not count as set by the user."""
    belief = {"regularise": {"prior_reports": 2}, "forget": {"window": 3}}
    scenario = make_scenario(
        lppms=[{"kind": "PEB-Exp", "belief": belief}, *[name for name in short_names() if name != "PEB-Exp"]]
    )
    again = Scenario.model_validate(json.loads(scenario.canonical()))
    assert again.canonical() == scenario.canonical()
