"""Secrets of mechanisms: hidden states of their channels, which custom components have only once they are built."""

from __future__ import annotations

from typing import Any, cast

from sim.errors import input_errors
from sim.interfaces import DesignCapabilities, HiddenState, LPPMCapabilities
from sim.mobility.statistics import statistics
from sim.scenario.lppms import LPPMSpec
from sim.world import World


def built(lppm: LPPMSpec, world: World) -> Any:
    """Build the design of an LPPM, or a complete custom mechanism without statistics of its user."""
    part = "design" if lppm.lppm is None else "lppm"
    with input_errors(f"lppms.{lppm.name}.{part}"):
        if lppm.lppm is None:
            return lppm.design.build(world)
        return lppm.lppm.build(world, statistics([], n_cells=world.n_cells))


def hidden_state(component: Any, lppm: LPPMSpec) -> HiddenState | None:
    """Return the hidden state of the built design or complete mechanism of an LPPM; None without one."""
    capability = DesignCapabilities.hidden_state if lppm.lppm is None else LPPMCapabilities.hidden_state
    return capability.of(cast(Any, component))


def is_declared(lppm: LPPMSpec) -> bool:
    """Return whether `LPPMSpec.has_memory` is the truth: custom components do not declare a secret."""
    return lppm.lppm is None and not lppm.design.is_custom


def found_secret(component: Any, lppm: LPPMSpec) -> str | None:
    """Return the approximation of those who track the secret of a built custom component; None without a secret."""
    state = None if is_declared(lppm) else hidden_state(component, lppm)
    return None if state is None else str(state.approximation)
