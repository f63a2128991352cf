"""Build the mechanisms of the users in one simulation."""

from __future__ import annotations

from collections.abc import Mapping

from sim.errors import input_errors
from sim.execution.notes import Notes, rows_without_data
from sim.execution.secrets import hidden_state
from sim.interfaces import LPPM, BeliefCapabilities, LPPMCapabilities, OutputSpace
from sim.lppm.mechanism import Mechanism
from sim.lppm.outputs import Cells, output_space
from sim.scenario.lppms import LPPMSpec
from sim.simulation.population import Population


class Mechanisms:
    """Mechanisms of the users; users with the same statistics share one with a fixed belief and no past of its own."""

    def __init__(self, spec: LPPMSpec, population: Population) -> None:
        self._spec = spec
        self._restart_s = population.scenario.restart_s
        self._world = population.setting.world
        self._knowledge = population.knowledge(spec.training)
        with input_errors(f"lppms.{spec.name}.{'design' if spec.lppm is None else 'lppm'}"):
            design = self._design = spec.design.build(self._world)
            probe = None if spec.lppm is None else self._complete(population.traces[0].user)
        n_cells = self._world.n_cells
        space = output_space(design, n_cells) if probe is None else LPPMCapabilities.space.of(probe) or Cells(n_cells)
        self.space: OutputSpace = space
        """Output space of the design or the complete mechanism."""
        self.has_memory = hidden_state(design if probe is None else probe, spec) is not None
        """Whether outputs depend on a secret."""
        self._shared: dict[int, Mechanism] = {}

    def of(self, user: str) -> LPPM:
        """Build and return the mechanism of a user."""
        if self._spec.lppm is not None:
            return self._complete(user)
        statistics = self._knowledge(user)
        if id(statistics) in self._shared:
            return self._shared[id(statistics)]
        belief = self._spec.belief.build(statistics, self._restart_s, self._world)
        mechanism = Mechanism(belief=belief, design=self._design, learns_from=self._spec.learns_from)
        if BeliefCapabilities.fixed.of(belief) and not mechanism.has_past:
            self._shared[id(statistics)] = mechanism
        return mechanism

    def _complete(self, user: str) -> LPPM:
        """Build a complete custom mechanism."""
        assert self._spec.lppm is not None
        return self._spec.lppm.build(self._world, self._knowledge(user))

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
