"""Values set from the command line and values swept: they reach any place, and what is wrong is blamed on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sim.scenario.reading.faults import ScenarioError
from sim.storage.load import load
from tests.support import faults

NOT_BOTH = "`epsilon_per_km` and `quality_budget_km` exclude each other: found both, allowed is one"

Write = Callable[..., Path]


# ------------------------------------------------------------------------------------------------ --set


def test_settings_from_python_are_values_by_path(write: Write) -> None:
    texts = ["users.count=7", "lppms.*.design.quality_budget_km=0.5", "users.demand={kind: poisson, per_hour: 2}"]
    values = {
        "users.count": 7,
        "lppms.*.design.quality_budget_km": 0.5,
        "users.demand": {"kind": "poisson", "per_hour": 2},
    }
    assert load(write(), settings=values).canonical() == load(write(), settings=texts).canonical()
    with pytest.raises(ScenarioError, match=r"^settings users\.cuont: .*did you mean 'count'"):
        load(write(), settings={"users.cuont": 3})
    with pytest.raises(ScenarioError, match=r"^settings users\.count: .*must be at least 1, found 0"):
        load(write(), settings={"users.count": 0})


def test_settings_reach_every_kind_of_place(write: Write) -> None:
    path = write(users="{count: 2, queries: 6, mobility: {kind: favourites}}", world="{}")
    scenario = load(
        path,
        settings=[
            "replications=7",
            "lppms.*.design.remap=false",
            "lppms.peb.belief.fading=0.1",
            'lppms."LH 0.5".design.reveal_probability=0.25',
            "lppms.0.design.epsilon_per_km=3e-1",
            "world.grid.rows=30",
            "users.mobility.places=2",
            "world.roads={kind: lattice, spacing_km: 2}",
            "world.roads.one_way_share=0",
            "attacks=[markov-trained]",
            "users.demand=periodic",
            "users.demand.period_s=60",
        ],
    )
    first, peb, hiding = (lppm.model_dump() for lppm in scenario.lppms)
    assert scenario.replications == 7
    assert [lppm["design"]["remap"] for lppm in (first, peb, hiding)] == [False] * 3
    assert first["design"]["epsilon_per_km"] == 0.3
    assert peb["belief"]["fading"] == 0.1
    assert hiding["design"]["reveal_probability"] == 0.25
    world = scenario.world.model_dump()
    assert (world["grid"]["rows"], world["grid"]["cols"]) == (30, 10)
    assert world["roads"] | {"spacing_km": 2.0, "one_way_share": 0.0} == world["roads"]
    users = scenario.users.model_dump()
    assert users["mobility"]["places"] == 2
    assert users["demand"]["period_s"] == 60
    assert [attack.name for attack in scenario.attacks] == ["markov-trained"]


def test_a_component_is_replaced_as_a_whole(write: Write) -> None:
    path = write(lppms="[{kind: SP-Exp, design: {epsilon_per_km: 2}}]")
    (lppm,) = load(path, settings=["lppms.0=PEB-LH"]).lppms
    assert (lppm.name, lppm.belief.kind, lppm.design.kind) == ("PEB-LH", "estimated_profile", "location_hiding")
    (lppm,) = load(path, settings=["lppms.0.kind=PEB-Exp"]).lppms
    assert (lppm.name, lppm.belief.kind) == ("PEB-Exp", "estimated_profile")
    assert getattr(lppm.design, "epsilon_per_km", None) == 2
    assert load(path, settings=["users.mobility={kind: markov, stay: 0.9}"]).users.mobility.kind == "markov"


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ("replications", "--set: found 'replications', expected path=value, such as replications=10"),
        ("=3", "--set: found '=3', expected path=value, such as replications=10"),
        ("replications=0", "--set replications: replications: must be at least 1, found 0"),
        ("replicatons=3", "--set replicatons: the scenario has no 'replicatons' (did you mean 'replications'?); "),
        ("users.cuont=3", "--set users.cuont: `users` has no 'cuont' (did you mean 'count'?); allowed: mobility, "),
        ("lppms.*.desing.remap=no", "--set lppms.*.desing.remap: `lppms.*` has no 'desing' (did you mean 'design'?)"),
        ("lppms.7=SP-Exp", "--set lppms.7: `lppms` has no element '7'; allowed: 0 to 2, SP-Exp, peb, LH 0"),
        ("a..b=3", "--set a..b: 'a..b' is no path"),
        ("seed=[1", "--set seed: the value '[1' cannot be read: this '[' is never closed"),
        ("lppms.*.design.remap=3",
         "--set lppms.*.design.remap: must be true or false, found 3 (in lppms.0, lppms.1 and lppms.2)"),
        ("seed='3'", "--set seed: seed: must be a whole number, found text '3'; remove the quotes"),
        # What a setting breaks elsewhere is its fault all the same.
        ("users.mobility=taxis", "--set users.mobility: users.mobility: taxis live on roads, found no roads"),
        ("users.queries=null", "--set users.queries: users: synthetic users live for ever"),
        ("lppms.*.name=x",
         "--set lppms.*.name: two of the lppms are called 'x' (also lppms.0); give one another `name` (in lppms.1 and"),
        ("training={}", "--set training: lppms.0.training: no such training set, found 'others'; none is defined"),
        ("world.roads.spacing_km=1", "--set world.roads.spacing_km: `world.roads` is nothing"),
        ("sweep={seed: [1, -2]}", "--set sweep: seed: must be at least 0, found -2"),
        ("record.snapshots.0=5", "--set record.snapshots.0: `record.snapshots` is not written out"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_blamed_on_the_setting(setting: str, fault: str, write: Write) -> None:
    path = write(lppms='[{kind: SP-Exp, training: others}, {kind: PEB-Exp, name: peb}, {kind: SP-LH, name: "LH 0.5"}]')
    assert faults(path, setting)[0].startswith(fault)


# ------------------------------------------------------------------------------------------------ --set and sweep

EPSILON = "lppms.*.design.epsilon_per_km"
SWEEP = f"{{{EPSILON}: [1, 2], users.demand: [every_visit]}}"


def swept_by(path: str) -> str:
    return f"is swept by `sweep.{path}`; set `sweep.{path}=[...]` instead, or `sweep={{}}`"


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ([f"{EPSILON}=3"], f"--set {EPSILON}: it {swept_by(EPSILON)}"),
        (["lppms.peb.design.epsilon_per_km=3"], f"--set lppms.peb.design.epsilon_per_km: it {swept_by(EPSILON)}"),
        (["users.demand.kind=every_visit"], f"--set users.demand.kind: it {swept_by('users.demand')}"),
        # whichever comes first
        (["seed=3", "sweep.seed=[4]"], f"--set seed: it {swept_by('seed')}"),
        (["sweep={seed: [4]}", "seed=3"], f"--set seed: it {swept_by('seed')}"),
        (["sweep={lppms.0.design.remap: [true]}", "lppms.*.design.remap=false"],
         f"--set lppms.*.design.remap: `lppms.0.design.remap`, which it reaches, {swept_by('lppms.0.design.remap')}"),
    ],
)  # fmt: skip
def test_what_is_swept_cannot_be_set(settings: list[str], fault: str, write: Write) -> None:
    assert faults(write(sweep=SWEEP), *settings) == [fault]


def test_what_is_swept_cannot_be_set_from_python(write: Write) -> None:
    path = write(sweep=SWEEP)
    with pytest.raises(ScenarioError) as raised:
        load(path, settings={EPSILON: 3, "users.demand": "every_visit", "seed": 4})
    assert sorted(map(str, raised.value.faults)) == [
        f"settings {EPSILON}: it {swept_by(EPSILON)}",
        f"settings users.demand: it {swept_by('users.demand')}",
    ]
    assert load(path, settings={EPSILON: 3, "sweep": {}}).sweep == {}


@pytest.mark.parametrize(
    "setting",
    ["lppms.*.design.remap=false", "lppms=[PEB-Exp]", "lppms.0={kind: SP-Exp, name: other}", "users.count=1", "seed=9"],
)
def test_what_a_sweep_leaves_alone_can_be_set(setting: str, write: Write) -> None:
    assert load(write(sweep=SWEEP), settings=[setting]).digest != load(write(sweep=SWEEP)).digest


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        ([f"sweep.{EPSILON}=[5]"], {EPSILON: [5]}),
        ([f'sweep."{EPSILON}"=[5]'], {EPSILON: [5]}),
        (["sweep.seed=[7, 8]", "sweep.seed=[9]"], {"seed": [9]}),
        (["sweep.lppms.0.design.remap=[true]"], {"lppms.0.design.remap": [True]}),
        (['sweep.lppms."LH 0.5".design.remap=[true]'], {'lppms."LH 0.5".design.remap': [True]}),
    ],
)
def test_all_after_sweep_is_one_key_old_or_new(settings: list[str], changes: dict[str, object], write: Write) -> None:
    sweep = load(write(sweep=SWEEP)).sweep
    assert load(write(sweep=SWEEP), settings=settings).sweep == {**sweep, **changes}
    assert load(write(sweep=None), settings=settings).sweep == changes
    values = {f"sweep.{path}": value for path, value in changes.items()}
    assert load(write(sweep=SWEEP), settings=values).sweep == {**sweep, **changes}


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        (f"sweep.{EPSILON}=1", f'sweep."{EPSILON}": must be a list, found 1; write [1]'),
        (f"sweep.{EPSILON}=[x]", f"sweep.{EPSILON}: must be a number, found text 'x' (in lppms.0 and lppms.1)"),
        ("sweep.seed=[]", "sweep.seed: must be a list of 1 or more, found 0: []"),
        ("sweep.seed=[1, 1]", "sweep.seed: this value is given twice, found 1 again"),
        ("sweep.name=[a]", "sweep.name: cannot be swept: it changes no simulation; description, name and sweep are"),
        ("sweep.sede=[1]", "sweep.sede: the scenario has no 'sede' (did you mean 'seed'?)"),
        ("sweep.a..b=[1]", "sweep.a..b: 'a..b' is no path"),
        ("sweep.=[1]", "'sweep.' is no path"),
        # The file's own sweep was right without it, whichever comes first in the alphabet.
        ("sweep.lppms.*.design.remap=[false]",
         "sweep.lppms.*.design.remap: sets the same value as the path 'lppms.0.design.remap': leave one of them out"),
        ("sweep.lppms.*.design.quality_budget_km=[1]", f"sweep: {NOT_BOTH} (in lppms.0 and lppms.1)"),
    ],
)  # fmt: skip
def test_a_wrong_sweep_is_blamed_on_the_setting(setting: str, fault: str, write: Write) -> None:
    path = write(sweep=f"{{{EPSILON}: [1, 2], lppms.0.design.remap: [true]}}")
    (only,) = faults(path, setting)
    assert only.startswith(f"--set {setting.partition('=')[0]}: {fault}")


# ------------------------------------------------------------------------------------------------ sweep


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        (
            "{lppms.*.design.epsilon: [1]}",
            ["5:9: sweep.lppms.*.design.epsilon: `lppms.*.design` has no 'epsilon' (did you mean 'epsilon_per_km'?): "
             "none of SP-Exp, PEB-Exp and SP-LH has it; they have: kind, epsilon_per_km, quality_budget_km, remap and "
             "reveal_probability"],
        ),
        (
            "{lppms.*.design.alpha: [1]}",
            ["5:9: sweep.lppms.*.design.alpha: `lppms.*.design` has no 'alpha' (did you mean 'reveal_probability'?): "
             "none of SP-Exp, PEB-Exp and SP-LH has it; they have: kind, epsilon_per_km, quality_budget_km, remap and "
             "reveal_probability"],
        ),
        # Two wrong values are two faults, however many mechanisms they reach.
        ("{'lppms.*.design.remap': [3, true, x]}",
         ["5:34: sweep.lppms.*.design.remap: must be true or false, found 3 (in lppms.0, lppms.1 and lppms.2)",
          "5:43: sweep.lppms.*.design.remap: must be true or false, found text 'x' (in lppms.0, lppms.1 and lppms.2)"]),
        (
            "{sede: [1], lppms.0.design.epsilon_per_km: [1, -1, x]}",
            ["5:9: sweep.sede: the scenario has no 'sede' (did you mean 'seed'?); allowed: name, description, seed, "
             "replications, names, markov_restart, world, users, shifts, training, lppms, attacks, sweep or record",
             "5:55: lppms.0.design.epsilon_per_km: must be at least 0, found -1",
             "5:59: lppms.0.design.epsilon_per_km: must be a number, found text 'x'"],
        ),
        ("{seed: []}", ["5:15: sweep.seed: must be a list of 1 or more, found 0: []"]),
        ("{seed: [3, 4, 3]}", ["5:22: sweep.seed: this value is given twice, found 3 again"]),
        ("{'lppms.*.name': [a]}",
         ["5:26: sweep.lppms.*.name: two of the lppms are called 'a' (also lppms.0); give one another `name` "
          "(in lppms.1 and lppms.2)"]),
        ("{users.mobility: [taxis]}",
         ["5:26: users.mobility: taxis live on roads, found no roads: add for example `roads: lattice` to the world"]),
        ("{'lppms.*.design.epsilon_per_km': [1], lppms.0.design.epsilon_per_km: [2]}",
         ["5:47: sweep.lppms.0.design.epsilon_per_km: sets the same value as the path "
          "'lppms.*.design.epsilon_per_km': leave one of them out"]),
        ("{name: [a]}",
         ["5:9: sweep.name: cannot be swept: it changes no simulation; description, name and sweep are said once"]),
        ("{sweep: [{}]}",
         ["5:9: sweep.sweep: cannot be swept: it changes no simulation; description, name and sweep are said once"]),
        (f"{{seed: {list(range(101))}, users.count: {list(range(1, 101))}}}",
         ["5:1: sweep: a sweep must have at most 10,000 combinations of values, found 10,100"]),
        # The two are right alone and wrong together.
        ("{lppms.0.design.epsilon_per_km: [1, 2], lppms.0.design.quality_budget_km: [1]}",
         [f"5:1: lppms.0.design: {NOT_BOTH}"]),
        ("{lppms.1.design.quality_budget_km: [1]}",
         [f"5:44: lppms.1.design: {NOT_BOTH}"]),
    ],
)  # fmt: skip
def test_sweeps_are_validated_before_anything_runs(sweep: str, expected: list[str], write: Write) -> None:
    lppms = "[SP-Exp, {kind: PEB-Exp, design: {epsilon_per_km: 1}}, SP-LH]"
    assert faults(write(attacks=None, lppms=lppms, sweep=sweep)) == expected


def test_a_wrong_value_for_very_many_is_said_briefly(write: Write) -> None:
    lppms = f"[{', '.join(f'{{kind: SP-Exp, name: a{i}}}' for i in range(30))}]"
    assert faults(write(lppms=lppms, sweep="{lppms.*.design.epsilon_per_km: [-1]}")) == [
        "6:41: sweep.lppms.*.design.epsilon_per_km: must be at least 0, found -1 "
        "(in lppms.0, lppms.1, lppms.2, lppms.3 and others)"
    ]


def test_combinations_that_are_wrong_in_several_places_are_one_fault(write: Write) -> None:
    lppms = "[SP-Exp, PEB-Exp]"
    sweep = "{lppms.*.design.epsilon_per_km: [1], lppms.*.design.quality_budget_km: [1]}"
    assert faults(write(lppms=lppms, sweep=sweep)) == [f"6:1: sweep: {NOT_BOTH} (in lppms.0 and lppms.1)"]


def test_files_in_a_sweep_are_looked_for(write: Write, tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    path = write(
        users="{mobility: {kind: replay, file: a.csv}}", training=None, sweep="{users.mobility.file: [a.csv, b.csv]}"
    )
    (fault,) = faults(path)
    assert fault.startswith("5:38: users.mobility.file: file 'b.csv' does not exist")
