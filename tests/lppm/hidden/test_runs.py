"""Runs with secrets: what applies, what is left out and said, and complete mechanisms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from sim.analysis.narrative import memories, warnings
from sim.attack.hindsight import Hindsight, PathAttack, SmoothingAttack
from sim.attack.optimal import HiddenMemory, OptimalAttack
from sim.belief.markov_filter import MarkovFilter
from sim.errors import UserError
from sim.events import Report
from sim.execution.cost.estimate import estimate
from sim.interfaces import Attack
from sim.lppm.channels.exponential import exponential
from sim.lppm.hidden.memo import Memo
from sim.lppm.theory import theory
from sim.scenario.lppms import LPPMSpec
from sim.scenario.models import Scenario
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.support import MakeScenario

GRID = Grid.rectangle(rows=2, cols=3, width_km=3.0, height_km=2.0)
DISTANCE = manhattan(GRID)
MEMOISED = {"name": "Memo", "belief": "estimated_profile", "design": {"kind": "memoised", "inner": "exponential"}}
ATTACKS: list[Any] = [
    "sporadic",
    "smoothing",
    "sporadic-learning",
    {"kind": "sporadic", "name": "ignoring", "ignores_memory": True},
    {"kind": "path", "name": "ignoring-path", "ignores_memory": True},
]


def filter_of(_user: str) -> MarkovFilter:
    return MarkovFilter(start_profile=np.full(6, 1 / 6), transition=np.full((6, 6), 1 / 6))


def test_attacks_that_cannot_track_a_secret_refuse_it_or_ignore_it() -> None:
    channel = Memo().wrap(exponential(DISTANCE, 1.0))
    report = Report("ann", 1, 0, 3, channel)
    makes: list[Any] = [
        lambda **given: SmoothingAttack(Hindsight(), belief_of=filter_of, distance=DISTANCE, **given),
        lambda **given: PathAttack(Hindsight(), belief_of=filter_of, **given),
    ]
    for make in makes:
        with pytest.raises(HiddenMemory):
            make().observe(report)
        ignoring: Attack = make(ignores_memory=True)
        assert ignoring.observe(report).estimate == 3


def test_ignoring_adversary_has_the_posterior_of_the_inner_channel() -> None:
    inner = exponential(DISTANCE, 1.0)
    attacks = [
        OptimalAttack(belief_of=filter_of, distance=DISTANCE, with_posterior=True, ignores_memory=ignores)
        for ignores in (True, False, False)
    ]
    channels = (Memo().wrap(inner), inner, Memo().wrap(inner))
    for index, output in enumerate([3, 3, 3], start=1):
        ignoring, plain, tracking = (
            attack.observe(Report("ann", index, index, output, channel)).posterior
            for attack, channel in zip(attacks, channels, strict=True)
        )
        assert ignoring == pytest.approx(plain)
        assert (index == 1) == np.allclose(np.asarray(tracking), np.asarray(plain))


def test_metrics_of_single_reports_are_left_out() -> None:
    channel = Memo().wrap(exponential(DISTANCE, 1.0))
    prior = np.full(6, 1 / 6)
    metrics = theory(channel, prior, quality=DISTANCE, privacy=DISTANCE, epsilon_in=DISTANCE)
    assert metrics.quality_loss_km is not None
    assert (metrics.adversary_error_km, metrics.entropy_bits) == (None, None)
    assert metrics.epsilon_per_km == np.inf


def test_scenario_leaves_out_and_reports_what_does_not_apply(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(lppms=["ConstantOffset", MEMOISED, "SP-Exp"], attacks=ATTACKS)
    offset, memo, ordinary = scenario.lppms
    assert "smoothing" not in [attack.name for attack in scenario.attacks_on(offset)]
    assert [attack.name for attack in scenario.attacks_on(ordinary)] == [attack.name for attack in scenario.attacks]
    assert (offset.is_memoryless, memo.is_memoryless, ordinary.is_memoryless) == (False, False, True)
    lines = "\n".join(memories(scenario, {}))
    for part in (
        "not computed by smoothing",
        "ignoring",
        "sporadic-learning",
        "64 most probable tables",
        "learns from",
    ):
        assert part in lines
    assert memories(make_scenario(lppms=["SP-Exp"], attacks=ATTACKS), {}) == []


@pytest.mark.parametrize("lppm", ["ConstantOffset", "DriftingOffset", MEMOISED], ids=str)
def test_run_has_no_expected_metrics(lppm: Any, make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(lppms=[lppm], attacks=ATTACKS, replications=1)
    events = sim.run(scenario, out=tmp_path / "run").events()
    assert events["expected_quality_loss_km"].isna().all()
    assert events["expected_adversary_error_km"].isna().all()
    assert set(events["attack"]) == {"sporadic", "sporadic-learning", "ignoring", "ignoring-path"}
    assert events["adversary_error_km"].notna().any()


def test_run_states_the_dropped_probability(make_scenario: MakeScenario, tmp_path: Path) -> None:
    few = {"kind": "memoised", "inner": "exponential", "most_tables": 1}
    lppm = MEMOISED | {"design": few}
    scenario = make_scenario(lppms=[lppm, "SP-Exp"], attacks=ATTACKS[3:] + ATTACKS[:1], replications=1)
    manifest = sim.run(scenario, out=tmp_path / "run").manifest
    dropped = {note.lppm: dict(note.attack_dropped) for note in manifest.notes}
    assert 0.05 < dropped["Memo"].pop("sporadic") < 1
    assert {*dropped["Memo"].values(), *dropped["SP-Exp"].values()} == {0.0}
    assert any(text.startswith("sporadic against Memo: it tracks part") for text in warnings(manifest))


SECRET = """
from sim.lppm.hidden.clocks import Constant
from sim.lppm.hidden.laws import disc_offsets
from sim.lppm.hidden.secret import SecretChannel, SecretDesign, SecretState, displaced


class Offset(SecretDesign):
    def __init__(self, *, world):
        law = disc_offsets(1.0, levels=2)
        state = SecretState(displaced(world.grid, law.displacements_km), law=law, clock=Constant())
        super().__init__(SecretChannel(state))
        state.approximation = "rounds"


class Complete(Offset):
    def __init__(self, *, world, statistics):
        super().__init__(world=world)

    def channel(self, time_s):
        return self(None)

    def observe(self, report):
        pass
"""


@pytest.fixture
def own_secret(make_scenario: MakeScenario, tmp_path: Path, monkeypatch: Any) -> Scenario:
    """A scenario with a custom design and a complete mechanism that have a secret, and one design without."""
    module = f"own_secret_{tmp_path.name}"  # a module is imported once per process
    (tmp_path / f"{module}.py").write_text(SECRET)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("LPPM_SIM_ALLOW_CODE", str(tmp_path))
    design = {"name": "own", "belief": "fixed_profile", "design": f"{module}:Offset"}
    complete = {"name": "complete", "lppm": {"kind": f"{module}:Complete"}}
    return make_scenario(lppms=[design, complete, "SP-Exp"], attacks=ATTACKS, replications=1)


@pytest.mark.parametrize("measure", [True, False])
def test_custom_secret_is_known_before_the_run(own_secret: Scenario, *, measure: bool) -> None:
    cost = estimate(own_secret, measure=measure, limit_s=60)
    assert cost.secrets == {"own": "rounds", "complete": "rounds"}
    lines = memories(own_secret, cost.secrets)
    (line,) = (line for line in lines if "smoothing" in line)
    assert line.startswith("Outputs of own and complete")
    assert any(line.endswith("rounds.") for line in lines)


def test_run_leaves_out_attacks_that_cannot_track_a_custom_secret(own_secret: Scenario, tmp_path: Path) -> None:
    result = sim.run(own_secret, out=tmp_path / "run", allow_code=True)
    attacks = result.events().groupby("lppm")["attack"].unique().map(set).to_dict()
    assert attacks["SP-Exp"] - attacks["own"] == {"smoothing"}
    assert attacks["own"] == attacks["complete"]
    assert result.manifest.secrets == {"own": "rounds", "complete": "rounds"}
    assert len(result.events()) == estimate(own_secret, limit_s=60).rows
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Outputs of own and complete depend on a secret: not computed by smoothing" in page


OWN = """
import numpy as np
from sim import MatrixChannel


class Sticky:
    def __init__(self, *, world, statistics, share=0.5):
        self.n, self.share, self.last = world.n_cells, share, None

    def channel(self, time_s):
        last = np.zeros((self.n, self.n))
        if self.last is None:
            return MatrixChannel(last + 1 / self.n)
        last[:, self.last] = 1
        return MatrixChannel(self.share * last + (1 - self.share) / self.n)

    def observe(self, report):
        self.last = report.output
"""


def test_complete_mechanism_runs_with_its_keys(make_scenario: MakeScenario, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "own_sticky.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("LPPM_SIM_ALLOW_CODE", str(tmp_path))
    always = {"name": "always", "lppm": {"kind": "own_sticky:Sticky", "share": 1.0}}
    entries: list[Any] = ["own_sticky:Sticky", {"kind": "own_sticky:Sticky", "name": "never", "share": 0.0}, always]
    scenario = make_scenario(lppms=entries, attacks=["sporadic"], replications=1)
    assert [lppm.name for lppm in scenario.lppms] == ["Sticky", "never", "always"]
    assert scenario.own_components() == ["own_sticky:Sticky"]
    events = sim.run(scenario, out=tmp_path / "run", allow_code=True).events()
    outputs = events[events["lppm"] == "always"].groupby("user")["output"].nunique()
    assert (outputs == 1).all()
    assert (events[events["lppm"] == "never"].groupby("user")["output"].nunique() > 1).all()


@pytest.mark.parametrize("other", [{"design": "exponential"}, {"belief": "fixed_profile"}, {"learns_from": "cells"}])
def test_complete_mechanism_excludes_its_parts(other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="excludes"):
        LPPMSpec.model_validate({"name": "x", "lppm": {"kind": "own:Own"}} | other)


def test_complete_mechanism_is_written_without_placeholders() -> None:
    spec = LPPMSpec.model_validate({"kind": "own:Own", "name": "x", "size": 2})
    dumped = spec.model_dump(exclude_unset=True)
    assert dumped == {"name": "x", "lppm": {"kind": "own:Own", "size": 2}}
    assert LPPMSpec.model_validate(dumped) == LPPMSpec.model_validate({"kind": "own:Own", "name": "x", "size": 2})
    assert "lppm" not in LPPMSpec.model_validate({"kind": "SP-Exp"}).model_dump()


def test_python_mechanism_repeats_its_answers_and_refuses_complete_classes() -> None:
    world = sim.make_world("rectangle", rows=3, cols=3, width_km=3, height_km=3)
    mechanism = sim.make_lppm(design={"kind": "memoised"}, belief="fixed_profile", world=world)
    rng = np.random.default_rng(1)
    reports = [mechanism.report(cell, 60 * place, rng) for place, cell in enumerate([4, 0, 4, 0, 4, 0])]
    assert len({report.output for report in reports[::2]}) == len({report.output for report in reports[1::2]}) == 1
    attack = sim.make_attack("sporadic", world=world, statistics=sim.make_statistics([4, 4, 0], world=world))
    assert [attack.observe(report).estimate for report in reports][-1] in range(9)
    with pytest.raises(UserError, match="own_sticky:Sticky") as error:
        sim.make_lppm("own_sticky:Sticky", world=world)
    assert error.value.code == "complete-mechanism"
