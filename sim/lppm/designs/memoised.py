"""Memoised: draw the answer for each cell once from another design, and repeat it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sim.components.registry import OneOf, component
from sim.components.spec import Count
from sim.errors import InvalidValue
from sim.events import Release
from sim.interfaces import Channel, Design, DesignCapabilities, FloatArray, channel_of
from sim.lppm.designs.planar_laplace import PlanarLaplaceParameters
from sim.lppm.hidden.memo import MOST_TABLES, Memo
from sim.lppm.parameters import DesignParameters, WorldSize
from sim.world import World


@component("design")
class MemoisedParameters(DesignParameters):
    """Memoised: draws the answer for each cell once from another design, and repeats it at later visits."""

    is_composed: ClassVar = True

    kind: Literal["memoised"] = "memoised"
    inner: Annotated[DesignParameters, OneOf("design", composed=False)] = Field(default_factory=PlanarLaplaceParameters)
    """Design from which answers are drawn (default: planar_laplace)."""
    most_tables: Count = MOST_TABLES
    """Number of tables of answers that an adversary tracks for each user. Adversaries are optimal while there are no
    more; time and memory grow with it."""

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return self.inner.uses_prior

    @property
    def countless(self) -> bool:
        """Whether there may be too many outputs to enumerate."""
        return self.inner.countless

    @property
    def has_memory(self) -> bool:
        """Whether outputs depend on a secret of the mechanism."""
        return True

    @property
    def approximation(self) -> str:
        """Approximation that adversaries make who track the answers."""
        return Memo(self.most_tables).approximation

    @property
    def sees_past(self) -> bool:
        """Whether the channel depends on the time or past releases."""
        return self.inner.sees_past

    @property
    def budget_km(self) -> float | None:
        """Expected loss in km that the inner design is calibrated to; None without a budget."""
        return self.inner.budget_km

    def require_feasible(self, size: WorldSize) -> None:
        """Raise `InvalidValue` if the inner design needs something that is refused in a world of this size."""
        self.inner.require_feasible(size)

    def build(self, world: World) -> Memoised:
        """Return the design for a world."""
        return Memoised(self.inner.build(world), most_tables=self.most_tables)


class Memoised:
    """Repeat the answer that another design drew at the first visit to a cell.

    The channel of a query is that of new answers: f(z | x) of an adversary who ignores the memory.
    """

    def __init__(self, inner: Design, *, most_tables: int = MOST_TABLES) -> None:
        if DesignCapabilities.hidden_state.of(inner) is not None:
            raise InvalidValue(
                "answers of a mechanism with a secret of its own cannot be memoised: choose another inner design",
                code="secret-in-secret",
            )
        self._inner = inner
        self.hidden_state = Memo(most_tables)
        self.uses_prior = bool(DesignCapabilities.uses_prior.of(inner))
        self.space = DesignCapabilities.space.of(inner)
        self.releases_used = DesignCapabilities.releases_used.of(inner)
        self._last: tuple[Channel, Channel] | None = None
        """The last inner channel and its memoised form, the same object while the inner channel is."""

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        return self._memoised(self._inner(prior))

    @property
    def channel_at(self) -> Callable[[FloatArray, int, Sequence[Release]], Channel] | None:
        """The channel by time and past releases, if the inner design has one."""
        return None if DesignCapabilities.channel_at.of(self._inner) is None else self._channel_at

    def _channel_at(self, prior: FloatArray, time_s: int, releases: Sequence[Release]) -> Channel:
        return self._memoised(channel_of(self._inner, prior, time_s, releases))

    def _memoised(self, inner: Channel) -> Channel:
        if self._last is None or self._last[0] is not inner:
            self._last = inner, self.hidden_state.wrap(inner)
        return self._last[1]
