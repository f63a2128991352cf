"""The face-value attack: the estimate is the reported cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import numpy as np

from sim.attack.parameters import AttackContext, AttackParameters, Knowledge
from sim.components.registry import component
from sim.components.spec import Name
from sim.events import Guess, Report
from sim.inference.bayes import normalise, read_only
from sim.interfaces import FloatArray, IntArray, OutputSpace
from sim.lppm.outputs import Cells, CellsOrNothing, Regions
from sim.mobility.statistics import Statistics
from sim.world.distance import Distance


@component("attack")
class FaceValueParameters(AttackParameters):
    """An adversary who takes reports at face value: the estimate is the reported cell. Needs no channel."""

    kind: Literal["face-value"] = "face-value"
    name: Name = "face-value"
    """Name of the attack in logs, tables and figures."""
    knows: Knowledge = "training"
    """Source of the profile that selects the estimate if a report names no cell or several: the user's test queries in
    force (test), all test queries of the user (whole_test), or the training data (training)."""

    @property
    def needs_channel(self) -> bool:
        """Whether the attack requires the channel of each report."""
        return False

    @property
    def is_memoryless(self) -> bool:
        """Whether the estimate depends on the current report alone."""
        return True

    def build(self, context: AttackContext) -> FaceValueAttack:
        """Return the attack."""
        return FaceValueAttack(
            profile_of=partial(_profile, context.known),
            distance=context.world.privacy_distance,
            space=context.outputs,
            all_outputs=context.expected,
        )


def _profile(known: Mapping[str, Statistics], user: str) -> FloatArray:
    return known[user].profile


class FaceValueAttack:
    """Take each report at face value: the estimate is the reported cell.

    The attack needs neither the channel nor a model of the mechanism, like a service that trusts its users. For a
    region or a place the estimate is the cell at which a map shows it. For a set of cells it is the optimal decision
    for d_P under the user's profile restricted to the set; without a report, the optimal decision under the whole
    profile. With `all_outputs`, guesses also carry the estimate for every output, if the outputs can be listed.
    """

    def __init__(
        self,
        *,
        profile_of: Callable[[str], FloatArray],
        distance: Distance,
        space: OutputSpace | None = None,
        all_outputs: bool = False,
    ) -> None:
        self._profile_of = profile_of
        self._distance = distance
        self._space = Cells(distance.n_cells) if space is None else space
        self._all_outputs = all_outputs
        self._n_outputs = _n_outputs(self._space)
        self._estimates: dict[str, dict[int, int]] = {}
        self._by_output: dict[str, IntArray] = {}

    def observe(self, report: Report) -> Guess:
        """Process one report and estimate the reported cell."""
        name, output = report.user, report.output
        estimate = self._estimate(name, output)
        by_output = self._estimates_by_output(name) if self._all_outputs and self._n_outputs is not None else None
        return Guess(name, report.index, estimate, by_output)

    def _estimates_by_output(self, name: str) -> IntArray:
        """Return the estimate for every output, computed once per user."""
        by_output = self._by_output.get(name)
        if by_output is None:
            estimates = [self._estimate(name, output) for output in range(self._n_outputs or 0)]
            by_output = self._by_output[name] = read_only(np.array(estimates, dtype=np.int64))
        return by_output

    def _estimate(self, name: str, output: int) -> int:
        shown = self._space.shown_at(output)
        if shown >= 0:
            return shown
        estimates = self._estimates.setdefault(name, {})
        if output not in estimates:
            estimates[output] = self._best(self._profile_of(name), self._space.cells(output))
        return estimates[output]

    def _best(self, profile: FloatArray, named: tuple[int, ...]) -> int:
        """Return the optimal decision under the profile restricted to the named cells, or under all of it."""
        weights = np.zeros_like(profile)
        weights[list(named)] = profile[list(named)]
        if not named:
            weights = profile
        elif not weights.any():
            weights[list(named)] = 1.0
        return self._distance.best_cell(normalise(weights))


def _n_outputs(space: OutputSpace) -> int | None:
    """Return the number of outputs, None if they cannot be listed."""
    match space:
        case Cells():
            return space.n_cells
        case CellsOrNothing():
            return space.n_cells + 1
        case Regions():
            return len(space.regions)
        case _:
            return None
