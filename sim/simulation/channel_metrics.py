"""Metrics of channels, cached while the same channel stays in use."""

from __future__ import annotations

from sim.interfaces import Channel, FloatArray
from sim.lppm.epsilon import exact_epsilon_per_km
from sim.lppm.theory import Theory, theory
from sim.world import World
from sim.world.distance import Distance


class ChannelMetrics:
    """Expected losses, exact epsilon and theoretical metrics of channels, cached for the last channel."""

    def __init__(self, world: World, epsilon_in: Distance | None = None) -> None:
        self.world = world
        self.epsilon_in = epsilon_in
        self._last_losses: tuple[Channel, dict[int, float]] | None = None
        self._last_epsilon: tuple[Channel, float] | None = None
        self._last_theory: tuple[Channel, FloatArray, Theory] | None = None

    def losses_of(self, channel: Channel) -> dict[int, float]:
        """Return the cache of a channel's expected losses in km by cell; the users of the channel share it."""
        if self._last_losses is None or self._last_losses[0] is not channel:
            self._last_losses = (channel, {})
        return self._last_losses[1]

    def epsilon_of(self, channel: Channel) -> float:
        """Return the exact epsilon of a channel, per km."""
        assert self.epsilon_in is not None
        if self._last_epsilon is None or self._last_epsilon[0] is not channel:
            self._last_epsilon = (channel, exact_epsilon_per_km(channel, self.epsilon_in))
        return self._last_epsilon[1]

    def theory_of(self, channel: Channel, prior: FloatArray) -> Theory:
        """Return the theoretical metrics of a channel under a prior."""
        last = self._last_theory
        if last is None or last[0] is not channel or last[1] is not prior:
            world = self.world
            metrics = theory(channel, prior, quality=world.quality_distance, privacy=world.privacy_distance)
            if self.epsilon_in is not None:
                metrics = metrics._replace(epsilon_per_km=self.epsilon_of(channel))
            last = self._last_theory = (channel, prior, metrics)
        return last[2]
