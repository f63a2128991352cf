"""Build the mechanisms of the users in one simulation."""

from __future__ import annotations

from collections.abc import Mapping

from sim.errors import input_errors
from sim.execution.notes import Notes, rows_without_data
from sim.interfaces import LPPM, BeliefCapabilities, DesignCapabilities, LPPMCapabilities
from sim.lppm.mechanism import Mechanism
from sim.lppm.outputs import output_space
from sim.scenario.lppms import LPPMSpec
from sim.simulation.population import Population


class Mechanisms:
    """Mechanisms of the users; users with the same statistics share one with a fixed belief and no past of its own."""

    def __init__(self, spec: LPPMSpec, population: Population) -> None:
        self._spec = spec
        self._restart_s = population.scenario.restart_s
        self._world = population.setting.world
        with input_errors(f"lppms.{spec.name}.design"):
            self._design = spec.design.build(self._world)
        self.space = output_space(self._design, self._world.grid.n_cells)
        """Output space of the design."""
        self.has_memory = DesignCapabilities.hidden_state.of(self._design) is not None
        """Whether outputs depend on a secret."""
        self._knowledge = population.knowledge(spec.training)
        self._shared: dict[int, Mechanism] = {}

    def of(self, user: str) -> LPPM:
        """Build and return the mechanism of a user."""
        statistics = self._knowledge(user)
        if id(statistics) in self._shared:
            return self._shared[id(statistics)]
        belief = self._spec.belief.build(statistics, self._restart_s, self._world)
        mechanism = Mechanism(belief=belief, design=self._design, learns_from=self._spec.learns_from)
        if BeliefCapabilities.fixed.of(belief) and not mechanism.has_past:
            self._shared[id(statistics)] = mechanism
        return mechanism

    def notes(self, made: Mapping[str, LPPM]) -> Notes:
        """Return the notes of the users' mechanisms after the simulation."""
        mechanisms = {id(mechanism): mechanism for mechanism in made.values()}
        held = map(LPPMCapabilities.belief.of, mechanisms.values())
        beliefs = [belief for belief in held if belief is not None]
        gaps = [BeliefCapabilities.worst_gap.of(belief) for belief in beliefs]
        return {
            "lppm_fallbacks": sum(int(BeliefCapabilities.fallbacks.of(belief)) for belief in beliefs),
            "lppm_alarms": sum(int(BeliefCapabilities.alarms.of(belief)) for belief in beliefs),
            "lppm_transitionrows_without_data": rows_without_data(map(self._knowledge, made)),
            "worst_gap": max((float(gap) for gap in gaps if gap is not None), default=None),
        }
