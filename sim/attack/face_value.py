"""The attack that believes each report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from sim.attack.parameters import AttackContext, AttackParameters, Knowledge
from sim.components.registry import component
from sim.components.spec import Name
from sim.events import Guess, Report
from sim.inference.bayes import decide, normalise, read_only
from sim.interfaces import FloatArray, IntArray, OutputSpace
from sim.lppm.outputs import Cells, CellsOrNothing, Regions
from sim.world.distance import Distance


@component("attack")
class FaceValueParameters(AttackParameters):
    """An adversary who believes each report: the estimate is the cell that it names. Needs no channel."""

    kind: Literal["face-value"] = "face-value"
    name: Name = "face-value"
    """Name in logs and figures."""
    knows: Knowledge = "training"
    """Whose profile decides where a report names no cell, or several."""

    @property
    def needs_channel(self) -> bool:
        """Whether it must know the channel of each report."""
        return False

    @property
    def is_memoryless(self) -> bool:
        """Whether the estimate certainly follows from the current report alone."""
        return True

    def build(self, context: AttackContext) -> FaceValueAttack:
        """Return the attack."""
        return FaceValueAttack(
            profile_of=lambda user: context.known[user].profile,
            distance=context.world.privacy_distance,
            space=context.outputs,
            foresee=context.expected,
        )


class FaceValueAttack:
    """Take each report at face value: the estimate is the cell that it names.

    She needs neither the channel nor a model of the mechanism: what a service that trusts its users knows of them. A
    region or a place is taken for the cell at which a map shows it. Of a set of cells she takes the best one to guess
    under her profile of the user, restricted to the set; and where nothing was sent, the best one under all of it.
    """

    def __init__(
        self,
        *,
        profile_of: Callable[[str], FloatArray],
        distance: Distance,
        space: OutputSpace | None = None,
        foresee: bool = False,
    ) -> None:
        self._profile_of = profile_of
        self._distance = distance
        self._space = Cells(len(distance.matrix_km)) if space is None else space
        self._foresee = foresee
        self._outputs = _how_many(self._space)
        self._answers: dict[str, dict[int, int]] = {}
        self._by_output: dict[str, IntArray] = {}

    def observe(self, report: Report) -> Guess:
        """Take in one report and believe it."""
        name, output = report.user, report.output
        estimate = self._answer(name, output)
        by_output = self._every(name) if self._foresee and self._outputs is not None else None
        return Guess(name, report.index, estimate, by_output)

    def _every(self, name: str) -> IntArray:
        """Return her answer to every output, worked out once."""
        known = self._by_output.get(name)
        if known is None:
            answers = [self._answer(name, output) for output in range(self._outputs or 0)]
            known = self._by_output[name] = read_only(np.array(answers, dtype=np.int64))
        return known

    def _answer(self, name: str, output: int) -> int:
        shown = self._space.shown_at(output)
        if shown >= 0:
            return shown
        known = self._answers.setdefault(name, {})
        if output not in known:
            known[output] = self._best(self._profile_of(name), self._space.cells(output))
        return known[output]

    def _best(self, profile: FloatArray, named: tuple[int, ...]) -> int:
        """Return the best cell to guess among those that are named, or among all."""
        weights = np.zeros_like(profile)
        weights[list(named)] = profile[list(named)]
        if not named:
            weights = profile
        elif not weights.any():
            weights[list(named)] = 1.0
        return decide(normalise(weights), self._distance.matrix_km, self._distance.shape)


def _how_many(space: OutputSpace) -> int | None:
    """Return how many outputs there are, where they are few enough to be listed."""
    match space:
        case Cells():
            return space.n_cells
        case CellsOrNothing():
            return space.n_cells + 1
        case Regions():
            return len(space.regions)
        case _:
            return None
