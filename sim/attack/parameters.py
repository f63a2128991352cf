"""Parameters that all attacks share, and the context in which an attack is built."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self, cast

from pydantic import ConfigDict, model_validator

from sim.components.custom import Custom
from sim.components.imports import ComponentError, resolve
from sim.components.registry import Parameters, component
from sim.components.spec import Name
from sim.errors import InvalidValue
from sim.interfaces import Attack, AttackCapabilities, OutputSpace
from sim.lppm.outputs import Cells
from sim.mobility.statistics import Statistics
from sim.world import World

Knowledge = Literal["test", "whole_test", "training"]
Memory = Literal["tracked", "approximated", "ignored", "unsupported", "unused"]
"""How an attack treats the secret of a mechanism: tracked jointly with the cell; tracked as independent of the cell
given past reports; ignored, as if new in every query; unsupported; or unused, since no channel is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackContext:
    """The information that the simulation gives to an adversary: the world and the known statistics."""

    world: World
    known: Mapping[str, Statistics]
    """Statistics of each user that the adversary knows."""
    in_force: Mapping[str, Sequence[tuple[int, Statistics]]] = field(default_factory=dict)
    """For users whose statistics change: pairs of the index of the first query, from 1, and the statistics in force."""
    space: OutputSpace | None = None
    """Meaning of the outputs of the mechanism; None: the outputs are the cells."""
    restart_s: int | None = None
    """Period in seconds that transitions of Markov models do not cross; None: no such period."""
    expected: bool = True
    """Whether guesses carry the estimates for all outputs, for expected errors."""
    posterior: bool = False
    """Whether guesses carry the posterior."""

    @property
    def outputs(self) -> OutputSpace:
        """The meaning of the outputs of the mechanism."""
        return self.space or Cells(self.world.n_cells)


class AttackParameters(Parameters):
    """Parameters of an attack."""

    name: Name
    """Name of the attack in logs, tables and figures. Default for shipped kinds: the kind."""
    knows: Knowledge = "test"
    """Statistics that the adversary knows: those of the user's test queries, by period if they shift (test: the worst
    case); those of all test queries of the user (whole_test); or those of the training data (training)."""
    training: str | None = None
    """Name of the training set, only with `knows: training`. Default: the first one."""

    @property
    def needs_channel(self) -> bool:
        """Whether the attack requires the channel of each report, which mechanisms of the full type do not release."""
        return True

    @property
    def memory(self) -> Memory:
        """How the attack treats the secret of a mechanism with hidden state."""
        return "ignored" if self.needs_channel else "unused"

    @property
    def is_memoryless(self) -> bool:
        """Whether the estimate depends on the current report alone."""
        return False

    @property
    def has_prior(self) -> bool:
        """Whether the attack holds a belief about the user, and thus has a best guess without any report."""
        return False

    @property
    def needs_everybody(self) -> bool:
        """Whether an estimate may depend on the reports or statistics of other users."""
        return False

    @model_validator(mode="after")
    def _trained(self) -> Self:
        if self.training is not None and self.knows != "training":
            raise InvalidValue(
                f"`training` requires `knows: training`, found {self.training!r} with `knows: {self.knows}`: "
                "remove `training` or change `knows`",
                code="unused-key",
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
        """Whether the attack requires the channel of each report; not known for custom classes."""
        return False

    @property
    def needs_everybody(self) -> bool:
        """Whether an estimate may depend on other users, as declared by the class."""
        component = resolve(self.kind, "attack", self.code)
        return not AttackCapabilities.separates_users.of(cast(Attack, component))

    def build(self, context: AttackContext) -> Attack:
        """Return an instance of the class, constructed with `world` and `statistics_of`."""
        return cast(Attack, self.instance("attack", world=context.world, statistics_of=StatisticsOf(context.known)))


class StatisticsOf:
    """A function from user id to the statistics that the adversary knows; an argument of custom attacks."""

    def __init__(self, known: Mapping[str, Statistics]) -> None:
        self._known = known

    @property
    def users(self) -> tuple[str, ...]:
        """The ids of the known users; with pseudonyms, the candidates."""
        return tuple(self._known)

    def __call__(self, user: str) -> Statistics:
        """Return the statistics of a user."""
        if user not in self._known:
            raise ComponentError(
                f"statistics_of({user!r}): unknown user; if user ids are pseudonyms, use an element of "
                "`statistics_of.users`, or set `knows: training` with a training set of kind others",
                code="unknown-user",
            )
        return self._known[user]
