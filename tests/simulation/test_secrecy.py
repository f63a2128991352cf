"""No adversary has access to true locations: a search of all its inputs finds none."""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sim.attack import bayesian, identification
from sim.events import Guess, Report
from sim.execution.adversary_knowledge import known_statistics
from sim.execution.mechanisms import Mechanisms
from sim.interfaces import Attack
from sim.lppm.mechanism import Mechanism
from sim.mobility.traces import Trace
from sim.rng import stream
from sim.scenario.models import Scenario
from sim.simulation.engine import simulate
from sim.simulation.population import Population
from sim.simulation.recorder import SimulationLog
from sim.simulation.setting import Setting
from tests.simulation.spy import secrets
from tests.support import MakeScenario


class Spy:
    """Adversary that searches its reports for secrets."""

    def __init__(self) -> None:
        self.secrets: list[Any] = []
        self.traces: Sequence[Trace] = ()

    def observe(self, report: Report) -> Guess:
        self.secrets += secrets(report, self.traces)
        return Guess(report.user, report.index, 0)


def spied(scenario: Scenario, spy: Attack) -> Population:
    population = Population(Setting(scenario), 0)
    if isinstance(spy, Spy):
        spy.traces = population.traces
    log = SimulationLog(world=population.setting.world, traces=population.traces, attacks=["spy"], expected=False)
    for lppm in scenario.lppms:
        simulate(
            traces=population.traces,
            lppm_of=Mechanisms(lppm, population).of,
            noise_of=lambda user: stream(1, user),
            attacks={"spy": spy},
            log=log,
        )
    return population


def with_a_past(make_scenario: MakeScenario, queries: int = 8, **changes: Any) -> Scenario:
    users = {"count": 2, "queries": queries, "past_queries": 5, "mobility": "favourites"}
    return make_scenario(users=users, training={"own": "own_past"}, **changes)


FORGETS = {"half_life_days": 1.0, "adaptive": True, "recent": 3, "queries_per_false_alarm": 2}


@pytest.mark.parametrize(
    "lppm",
    [
        *("SP-Exp", "SP-LH", "MK-Exp", "PEB-Exp", "PEB-LH", "LH", "identity"),
        {"kind": "PEB-Exp", "belief": {"forget": FORGETS}},
        {"kind": "PEB-LH", "belief": {"forget": {"window": 3}}},
        {"kind": "PEB-Exp", "belief": {"regularise": "cross_validated"}},
        *("RPEB-LH", "PEB-MK-Exp"),
    ],
)
def test_a_report_gives_no_access_to_secrets(lppm: str | dict[str, Any], make_scenario: MakeScenario) -> None:
    spy = Spy()
    spied(with_a_past(make_scenario, lppms=[lppm]), spy)
    assert spy.secrets == []


class Burglar(Spy):
    """Custom attack that also searches the arguments of its constructor."""

    def __init__(self, **given: Any) -> None:
        super().__init__()
        self.given = given
        given["statistics_of"]("user-001")
        self.secrets += secrets(given)


@pytest.mark.parametrize("knows", ["test", "training"])
def test_a_custom_attack_receives_no_secrets(
    knows: str, make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("burglary")
    module.__dict__["Burglar"] = Burglar
    monkeypatch.setitem(sys.modules, "burglary", module)
    monkeypatch.setenv("LPPM_SIM_ALLOW_CODE", "1")
    attack = {"kind": "burglary:Burglar", "name": "burglar", "knows": knows}
    scenario = with_a_past(make_scenario, attacks=[attack])
    population = Population(Setting(scenario), 0)
    burglar = scenario.attacks[0].build(
        scenario.attack_context(population.setting.world, known_statistics(scenario.attacks[0], population))
    )
    assert isinstance(burglar, Burglar)
    spied(scenario, burglar)
    assert burglar.secrets == []
    assert secrets(burglar.given, population.traces) == []


@pytest.mark.parametrize(
    "spec",
    [
        *({"kind": "PEB-Exp", "belief": {"forget": how}} for how in ({"half_life_queries": 3}, {"window": 3}, FORGETS)),
        {"kind": "PEB-Exp", "belief": {"regularise": {"smooth_km": 0.5}, "forget": FORGETS}},
        {"kind": "PEB-LH", "belief": {"regularise": "cross_validated"}},
        {"kind": "PEB-MK-Exp", "belief": {"transitions": "learned"}},
        *("PEB-Exp", "RPEB-Exp", "PEB-MK-Exp", "PEB-MK-LH"),
        {"name": "em", "belief": {"kind": "markov_em", "window": 20}, "design": "exponential"},
        {"name": "home", "belief": {"kind": "home", "half_life_days": 1.0}, "design": "exponential"},
    ],
)
def test_a_belief_learns_only_from_reports(spec: Any, make_scenario: MakeScenario) -> None:
    """A twin that observes only the released reports has exactly the same prior, and neither holds a secret."""
    scenario = with_a_past(make_scenario, queries=40, lppms=[spec])
    population = Population(Setting(scenario), 0)
    log = SimulationLog(world=population.setting.world, traces=population.traces, attacks=["listener"], expected=False)
    made, twins = Mechanisms(scenario.lppms[0], population), Mechanisms(scenario.lppms[0], population)
    carried = {trace.user: made.of(trace.user) for trace in population.traces}
    reports_seen: list[Report] = []

    class Listener:
        def observe(self, report: Report) -> Guess:
            reports_seen.append(report)
            return Guess(report.user, report.index, 0)

    simulate(
        traces=population.traces,
        lppm_of=carried.__getitem__,
        noise_of=lambda user: stream(1, user),
        attacks={"listener": Listener()},
        log=log,
    )
    for user, mechanism in carried.items():
        twin = twins.of(user)
        assert isinstance(mechanism, Mechanism)
        assert isinstance(twin, Mechanism)
        reports = [report for report in reports_seen if report.user == user]
        for report in reports:
            assert report.channel is not None
            twin.belief.observe(report.time_s, report.channel.likelihood(report.output))
        now_s = reports[-1].time_s + 3600
        assert len(reports) == 40
        assert twin.belief.prior(now_s).tolist() == mechanism.belief.prior(now_s).tolist()
        assert secrets(mechanism, population.traces) == []


@pytest.mark.parametrize("attack", [*bayesian.SHORT_NAMES, *identification.SHORT_NAMES])
def test_the_shipped_attacks_hold_no_secrets(attack: str, make_scenario: MakeScenario) -> None:
    scenario = with_a_past(make_scenario, attacks=[attack], lppms=["PEB-Exp"])
    population = Population(Setting(scenario), 0)
    built = scenario.attacks[0].build(
        scenario.attack_context(population.setting.world, known_statistics(scenario.attacks[0], population))
    )
    spied(scenario, built)
    assert secrets(built, population.traces) == []


def test_the_spy_reports_a_secret_in_the_channel() -> None:
    trace = Trace("ann", np.array([0]), np.array([3]))
    spy = Spy()
    spy.observe(Report("ann", 1, 0, 3, lambda: trace))  # type: ignore[arg-type]
    assert spy.secrets == [trace]
