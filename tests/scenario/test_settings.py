"""Values set from the command line and values swept: they reach any place, and what is wrong is blamed on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sim.components.wording import listing
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import ScenarioError
from sim.storage.load import load
from tests.support import assert_faults, faults

NOT_BOTH = ("`epsilon_per_km`", "`quality_budget_km`")

DESIGNS = (
    "SP-Exp, PEB-Exp and SP-LH",
    "kind, epsilon_per_km, quality_budget_km, remap, reveal_probability and coin_share",
)
"""The LPPMs of a test, and the keys of their designs."""

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
    with pytest.raises(ScenarioError) as error:
        load(write(), settings={"users.cuont": 3})
    assert_faults(error.value.faults, ("settings users.cuont: [unknown-path]", "did you mean 'count'"))
    with pytest.raises(ScenarioError) as error:
        load(write(), settings={"users.count": 0})
    assert_faults(error.value.faults, ("settings users.count: users.count [out-of-range]", "at least 1", "found 0"))


def test_settings_change_values_at_any_location(write: Write) -> None:
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
        ("replications", ("--set: [invalid-setting]", "'replications'")),
        ("=3", ("--set: [invalid-setting]", "'=3'")),
        ("replications=0", ("--set replications: replications [out-of-range]", "0", "at least 1")),
        ("replicatons=3", ("--set replicatons: [unknown-path]", "did you mean 'replications'")),
        ("users.cuont=3", ("--set users.cuont: [unknown-path]", "did you mean 'count'", "`users`")),
        ("lppms.*.desing.remap=no",
         ("--set lppms.*.desing.remap: [unknown-path]", "did you mean 'design'", "`lppms.*`")),
        ("lppms.7=SP-Exp", ("--set lppms.7: [unknown-path]", "`lppms`")),
        ("a..b=3", ("--set a..b: [invalid-path]",)),
        ("seed=[1", ("--set seed: [invalid-yaml]", "never closed")),
        ("lppms.*.design.remap=3",
         ("--set lppms.*.design.remap: [wrong-type]", "3", "(in lppms.0, lppms.1 and lppms.2)",
          "must be true or false")),
        ("seed='3'", ("--set seed: seed [wrong-type]", "text '3'", "must be a whole number", "remove the quotes")),
        # A fault elsewhere that a setting causes is attributed to the setting.
        ("users.mobility=taxis", ("--set users.mobility: users.mobility [no-roads]", "taxis")),
        ("users.queries=null", ("--set users.queries: users [missing-duration]",)),
        ("lppms.*.name=x",
         ("--set lppms.*.name: [duplicate-name]", "'x'", "lppms.0", "(in lppms.1 and lppms.2)")),
        ("training={}", ("--set training: lppms.0.training [unknown-training-set]", "'others'")),
        ("world.roads.spacing_km=1", ("--set world.roads.spacing_km: [unknown-path]", "`world.roads`")),
        ("sweep={seed: [1, -2]}", ("--set sweep: seed [out-of-range]", "-2", "at least 0")),
        ("record.snapshots.0=5", ("--set record.snapshots.0: [list-not-in-file]", "`record.snapshots`")),
    ],
)  # fmt: skip
def test_a_fault_of_a_setting_names_the_setting(setting: str, fault: tuple[str, ...], write: Write) -> None:
    path = write(lppms='[{kind: SP-Exp, training: others}, {kind: PEB-Exp, name: peb}, {kind: SP-LH, name: "LH 0.5"}]')
    assert_faults(faults(path, setting)[:1], fault)


@pytest.mark.parametrize("swap", [False, True], ids=["users first", "training first"])
def test_settings_may_be_valid_only_together(swap: bool, write: Write, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "user,order,cell\n" + "".join(f"{user},{i},{i % 5}\n" for user in "ab" for i in range(9))
    )
    settings = [
        f"users={{mobility: {{kind: replay, file: {tmp_path / 't.csv'}}}, past_share: 0.5}}",
        "training={past: own_past}",
    ]
    alone = [faults(write(), setting) for setting in settings]
    assert all(alone), "each setting needs the other"
    scenario = load(write(), settings=settings[::-1] if swap else settings)
    assert (scenario.users.mobility.kind, scenario.users.past_share) == ("replay", 0.5)


def test_all_faults_of_settings_are_reported_with_the_setting_of_each(write: Write) -> None:
    all_faults = faults(write(), "users.queries=null", "replications=2", "lppms.*.name=x", "seed=-1")
    assert_faults(
        sorted(all_faults, key=str),
        ("--set lppms.*.name: [duplicate-name]",),
        ("--set seed: seed [out-of-range]",),
        ("--set users.queries: users [missing-duration]",),
    )


def test_a_setting_may_change_what_an_invalid_one_has_set(write: Write) -> None:
    assert load(write(), settings=["users.queries=null", "users.queries=7"]).users.queries == 7


# ------------------------------------------------------------------------------------------------ --set and sweep

EPSILON = "lppms.*.design.epsilon_per_km"
SWEEP = f"{{{EPSILON}: [1, 2], users.demand: [every_visit]}}"


def swept(setting: str, by: str) -> tuple[str, ...]:
    """Return the fault of a setting that changes a swept value."""
    return f"{setting}: [setting-is-swept]", f"`sweep.{by}`", f"`sweep.{by}=[...]`", "`sweep={}`"


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ([f"{EPSILON}=3"], swept(f"--set {EPSILON}", EPSILON)),
        (["lppms.peb.design.epsilon_per_km=3"], swept("--set lppms.peb.design.epsilon_per_km", EPSILON)),
        (["users.demand.kind=every_visit"], swept("--set users.demand.kind", "users.demand")),
        # in any order
        (["seed=3", "sweep.seed=[4]"], swept("--set seed", "seed")),
        (["sweep={seed: [4]}", "seed=3"], swept("--set seed", "seed")),
        (["sweep={lppms.0.design.remap: [true]}", "lppms.*.design.remap=false"],
         (*swept("--set lppms.*.design.remap", "lppms.0.design.remap"), "`lppms.0.design.remap`, which")),
    ],
)  # fmt: skip
def test_swept_values_cannot_be_set(settings: list[str], fault: tuple[str, ...], write: Write) -> None:
    assert_faults(faults(write(sweep=SWEEP), *settings), fault)


def test_swept_values_cannot_be_set_from_python(write: Write) -> None:
    path = write(sweep=SWEEP)
    with pytest.raises(ScenarioError) as error:
        load(path, settings={EPSILON: 3, "users.demand": "every_visit", "seed": 4})
    expected = swept(f"settings {EPSILON}", EPSILON), swept("settings users.demand", "users.demand")
    assert_faults(sorted(error.value.faults, key=str), *expected)
    assert load(path, settings={EPSILON: 3, "sweep": {}}).sweep == {}


@pytest.mark.parametrize(
    "setting",
    ["lppms.*.design.remap=false", "lppms=[PEB-Exp]", "lppms.0={kind: SP-Exp, name: other}", "users.count=1", "seed=9"],
)
def test_values_that_are_not_swept_can_be_set(setting: str, write: Write) -> None:
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
def test_the_part_after_sweep_is_one_key_old_or_new(
    settings: list[str], changes: dict[str, object], write: Write
) -> None:
    sweep = load(write(sweep=SWEEP)).sweep
    assert load(write(sweep=SWEEP), settings=settings).sweep == {**sweep, **changes}
    assert load(write(sweep=None), settings=settings).sweep == changes
    values = {f"sweep.{path}": value for path, value in changes.items()}
    assert load(write(sweep=SWEEP), settings=values).sweep == {**sweep, **changes}


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        (f"sweep.{EPSILON}=1", (f'sweep."{EPSILON}" [wrong-type]', "a list", "found 1; write [1]")),
        (f"sweep.{EPSILON}=[x]", (f"sweep.{EPSILON} [wrong-type]", "text 'x'", "(in lppms.0 and lppms.1)")),
        ("sweep.seed=[]", ("sweep.seed [wrong-length]", "1 or more", "[]")),
        ("sweep.seed=[1, 1]", ("sweep.seed [duplicate-value]", "found 1")),
        ("sweep.name=[a]", ("sweep.name [not-sweepable]", "description, name and sweep")),
        ("sweep.sede=[1]", ("sweep.sede [unknown-path]", "'sede' (did you mean 'seed'?)")),
        ("sweep.a..b=[1]", ("sweep.a..b [invalid-path]", "'a..b'")),
        ("sweep.=[1]", ("[invalid-path]", "'sweep.'")),
        # The sweep of the file was valid without the setting, whatever the alphabetical order.
        ("sweep.lppms.*.design.remap=[false]",
         ("sweep.lppms.*.design.remap [overlapping-paths]", "'lppms.0.design.remap'")),
        ("sweep.lppms.*.design.quality_budget_km=[1]", ("sweep", *NOT_BOTH, "(in lppms.0 and lppms.1)")),
    ],
)  # fmt: skip
def test_a_fault_of_a_sweep_names_the_setting(setting: str, fault: tuple[str, ...], write: Write) -> None:
    path = write(sweep=f"{{{EPSILON}: [1, 2], lppms.0.design.remap: [true]}}")
    label, *words = fault
    assert_faults(faults(path, setting), (f"--set {setting.partition('=')[0]}: {label}", *words))


# ------------------------------------------------------------------------------------------------ sweep


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        (
            "{lppms.*.design.epsilon: [1]}",
            [("5:9: sweep.lppms.*.design.epsilon [unknown-path]", "`lppms.*.design`",
              "'epsilon' (did you mean 'epsilon_per_km'?)", *DESIGNS)],
        ),
        (
            "{lppms.*.design.alpha: [1]}",
            [("5:9: sweep.lppms.*.design.alpha [unknown-path]", "`lppms.*.design`",
              "'alpha' (did you mean 'reveal_probability'?)", *DESIGNS)],
        ),
        # Two invalid values are two faults, whatever the number of mechanisms they affect.
        ("{'lppms.*.design.remap': [3, true, x]}",
         [("5:34: sweep.lppms.*.design.remap [wrong-type]", "3", "(in lppms.0, lppms.1 and lppms.2)",
           "must be true or false"),
          ("5:43: sweep.lppms.*.design.remap [wrong-type]", "text 'x'", "(in lppms.0, lppms.1 and lppms.2)",
           "must be true or false")]),
        (
            "{sede: [1], lppms.0.design.epsilon_per_km: [1, -1, x]}",
            [("5:9: sweep.sede [unknown-path]", "did you mean 'seed'", f"allowed: {listing(Scenario.model_fields)}"),
             ("5:55: lppms.0.design.epsilon_per_km [out-of-range]", "-1", "at least 0"),
             ("5:59: lppms.0.design.epsilon_per_km [wrong-type]", "text 'x'", "must be a number")],
        ),
        ("{seed: []}", [("5:15: sweep.seed [wrong-length]", "0", "1 or more", "must be a list")]),
        ("{seed: [3, 4, 3]}", [("5:22: sweep.seed [duplicate-value]", "3")]),
        ("{'lppms.*.name': [a]}",
         [("5:26: sweep.lppms.*.name [duplicate-name]", "'a'", "lppms.0", "(in lppms.1 and lppms.2)")]),
        ("{users.mobility: [taxis]}",
         [("5:26: users.mobility [no-roads]", "taxis", "`roads: lattice`")]),
        ("{'lppms.*.design.epsilon_per_km': [1], lppms.0.design.epsilon_per_km: [2]}",
         [("5:47: sweep.lppms.0.design.epsilon_per_km [overlapping-paths]", "'lppms.*.design.epsilon_per_km'")]),
        ("{name: [a]}",
         [("5:9: sweep.name [not-sweepable]", "description, name and sweep")]),
        ("{sweep: [{}]}",
         [("5:9: sweep.sweep [not-sweepable]", "description, name and sweep")]),
        (f"{{seed: {list(range(101))}, users.count: {list(range(1, 101))}}}",
         [("5:1: sweep [too-many-points]", "10,100", "at most 10,000")]),
        # Each value is valid alone; the combination is not.
        ("{lppms.0.design.epsilon_per_km: [1, 2], lppms.0.design.quality_budget_km: [1]}",
         [("5:1: lppms.0.design", *NOT_BOTH)]),
        ("{lppms.1.design.quality_budget_km: [1]}",
         [("5:44: lppms.1.design", *NOT_BOTH)]),
    ],
)  # fmt: skip
def test_sweeps_are_validated_before_anything_runs(sweep: str, expected: list[tuple[str, ...]], write: Write) -> None:
    lppms = "[SP-Exp, {kind: PEB-Exp, design: {epsilon_per_km: 1}}, SP-LH]"
    assert_faults(faults(write(attacks=None, lppms=lppms, sweep=sweep)), *expected)


def test_a_fault_in_many_places_lists_the_first_ones(write: Write) -> None:
    lppms = f"[{', '.join(f'{{kind: SP-Exp, name: a{i}}}' for i in range(30))}]"
    assert_faults(
        faults(write(lppms=lppms, sweep="{lppms.*.design.epsilon_per_km: [-1]}")),
        (
            "6:41: sweep.lppms.*.design.epsilon_per_km [out-of-range]",
            "at least 0",
            "-1 (in lppms.0, lppms.1, lppms.2, lppms.3 and others)",
        ),
    )


def test_an_invalid_combination_in_several_places_is_one_fault(write: Write) -> None:
    lppms = "[SP-Exp, PEB-Exp]"
    sweep = "{lppms.*.design.epsilon_per_km: [1], lppms.*.design.quality_budget_km: [1]}"
    assert_faults(faults(write(lppms=lppms, sweep=sweep)), ("6:1: sweep", *NOT_BOTH, "(in lppms.0 and lppms.1)"))


def test_swept_files_must_exist(write: Write, tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    path = write(
        users="{mobility: {kind: replay, file: a.csv}}", training=None, sweep="{users.mobility.file: [a.csv, b.csv]}"
    )
    assert_faults(faults(path), ("5:38: users.mobility.file", "'b.csv'"))
