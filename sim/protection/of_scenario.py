"""Mechanism, world and training data of a scenario, to be used outside the simulator."""

from __future__ import annotations

from sim.errors import InputError
from sim.mobility.statistics import Statistics
from sim.mobility.training.others import OthersParameters
from sim.scenario.lppms import LPPMSpec, short_names
from sim.scenario.models import Scenario
from sim.simulation.setting import Setting


def lppm_of(scenario: Scenario, name: str | None) -> LPPMSpec | str:
    """Return the mechanism of a scenario with this name, or the name itself if it is a short name of another one.

    None stands for the only mechanism of the scenario.
    """
    if name is None and len(scenario.lppms) == 1:
        return scenario.lppms[0]
    match = next((lppm for lppm in scenario.lppms if lppm.name == name), None)
    if match is not None:
        return match
    if name is not None and name in short_names():
        return name
    listed = ", ".join(lppm.name for lppm in scenario.lppms)
    given = "no name" if name is None else repr(name)
    raise InputError(
        f"found {given}, expected a mechanism of the scenario, {listed}, or a short name of `lppm-sim list`",
        code="no-such-lppm",
    )


def training_of(scenario: Scenario, lppm: LPPMSpec | str) -> Statistics | None:
    """Return the statistics that a mechanism of the scenario is trained on; None if the scenario has no training set.

    Only other people can be trained on: the past of a simulated user is not that of the user to protect.
    """
    name = scenario.training_set(None if isinstance(lppm, str) else lppm.training)
    if name is None:
        return None
    if not isinstance(scenario.training[name], OthersParameters):
        raise InputError(
            f"the training set {name} of the scenario depends on the simulated user: give the traces to train on, or "
            "choose a training set of kind `others`",
            code="training-of-simulated-user",
        )
    return Setting(scenario).others(name)
