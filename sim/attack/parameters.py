"""Parameters that all attacks share, and what an attack is built from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self, cast

from pydantic import ConfigDict, model_validator

from sim.components.custom import Custom
from sim.components.imports import ComponentError
from sim.components.registry import Parameters, component
from sim.components.spec import Name
from sim.interfaces import Attack, OutputSpace
from sim.lppm.outputs import Cells
from sim.mobility.statistics import Statistics
from sim.world import World

Knowledge = Literal["test", "whole_test", "training"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackContext:
    """What the simulation gives to an adversary: the world, and what is known of the users."""

    world: World
    known: Mapping[str, Statistics]
    """The statistics of each user that the adversary has."""
    in_force: Mapping[str, Sequence[tuple[int, Statistics]]] = field(default_factory=dict)
    """For users whose statistics change: those in force, each from the query of that number on."""
    space: OutputSpace | None = None
    """What the outputs of the mechanism stand for; None for the cells."""
    restart_s: int | None = None
    """The period that Markov models do not cross."""
    expected: bool = True
    """Whether guesses carry the answers to all outputs, for expected errors."""
    posterior: bool = False
    """Whether guesses carry the posterior."""

    @property
    def outputs(self) -> OutputSpace:
        """What the outputs of the mechanism stand for."""
        return self.space or Cells(self.world.grid.n_cells)


class AttackParameters(Parameters):
    """Parameters of an attack."""

    name: Name
    """Name in logs and figures."""
    knows: Knowledge = "test"
    """Whose statistics: the user's own in force (the worst case), those of the whole test, or the training data's."""
    training: str | None = None
    """Which training set, with `knows: training`; by default the first one."""

    @property
    def needs_channel(self) -> bool:
        """Whether it must know the channel of each report, which mechanisms of the full type do not release."""
        return True

    @property
    def is_memoryless(self) -> bool:
        """Whether the estimate certainly follows from the current report alone."""
        return False

    @model_validator(mode="after")
    def _trained(self) -> Self:
        if self.training is not None and self.knows != "training":
            raise ValueError(
                f"`training` is for an adversary with `knows: training`, found {self.training!r} with "
                f"`knows: {self.knows}`"
            )
        return self

    @abstractmethod
    def build(self, context: AttackContext) -> Attack:
        """Return the attack."""


@component("attack")
class CustomAttack(Custom, AttackParameters):
    """Custom attack, imported from `module`."""

    model_config = ConfigDict(extra="allow")

    @property
    def needs_channel(self) -> bool:
        """Whether it must know the channel of each report: unknown of custom classes."""
        return False

    def build(self, context: AttackContext) -> Attack:
        """Return an instance of the class, which is given the world and `statistics_of`."""
        return cast(Attack, self.instance("attack", world=context.world, statistics_of=StatisticsOf(context.known)))


class StatisticsOf:
    """Returns the statistics of a user; given to custom attacks."""

    def __init__(self, known: Mapping[str, Statistics]) -> None:
        self._known = known

    @property
    def users(self) -> tuple[str, ...]:
        """Return the names that are known: where names are hidden, the users who may be behind a pseudonym."""
        return tuple(self._known)

    def __call__(self, user: str) -> Statistics:
        """Return the statistics of a user."""
        if user not in self._known:
            raise ComponentError(
                f"statistics_of({user!r}): nothing is known under this name; where names are hidden, take one of "
                "`statistics_of.users`, or say `knows: training` with a set of kind others"
            )
        return self._known[user]
