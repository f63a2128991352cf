"""The hidden offset of Android's `LocationFudger`, and the design that rounds coordinates after it."""

from __future__ import annotations

import math

import numpy as np

from sim.errors import InvalidValue
from sim.inference.dense import DENSE_BYTES
from sim.interfaces import FloatArray, IntArray
from sim.lppm.designs.phones.android import moved
from sim.lppm.designs.phones.coarsening import Rule, places_of
from sim.lppm.hidden.clocks import Clock
from sim.lppm.hidden.laws import GaussianOffsets
from sim.lppm.hidden.secret import OwnSecretChannel, SecretDesign, SecretState, require_pairs
from sim.lppm.outputs import Places
from sim.lppm.place_loss import losses_km
from sim.world import World
from sim.world.locations import Locations


class AtMostEvery:
    """The offset is updated by the first query at least `interval_s` after the last update, once for any longer gap.

    An update replaces the offset by w times itself plus `change` times a new one, with w = sqrt(1 - change^2). So its
    standard deviation never changes, and its correlation decreases by the factor w.

    >>> clock = AtMostEvery(interval_s=3600, change=0.6)
    >>> clock.advance(None, 0)[1], clock.advance(3600, 3599), clock.advance(3600, 90_000)
    (3600, (1.0, 3600), (0.8, 93600))
    """

    def __init__(self, *, interval_s: int, change: float) -> None:
        self._interval_s = interval_s
        self._kept = math.sqrt(1 - change**2)

    def advance(self, state: int | None, time_s: int) -> tuple[float, int]:
        """Return the correlation with the last query, and the time of the next update."""
        if state is not None and time_s < state:
            return 1.0, state
        return self._kept, time_s + self._interval_s


def fudger(world: World, rule: Rule, *, law: GaussianOffsets, clock: Clock) -> SecretDesign:
    """Return the design that moves coordinates by a hidden offset and then applies a rule to them."""
    require_pairs(world.n_cells, law.weights.size)
    space, emission = emissions(world.locations, rule, law.displacements_km)
    if world.n_cells * space.count * 8 > DENSE_BYTES:
        raise InvalidValue(
            f"the probabilities of {space.count:,} places in {world.n_cells:,} cells would take more than "
            f"{DENSE_BYTES / 1e9:g} GB of memory: use larger cells or a smaller region",
            code="matrix-too-large",
        )
    state = SecretState(emission, law=law, clock=clock)
    losses = losses_km(space, world.quality_distance)
    return SecretDesign(OwnSecretChannel(state, space=space, losses_km=losses))


def emissions(locations: Locations, rule: Rule, displacements_km: FloatArray) -> tuple[Places, IntArray]:
    """Return the places that can be reported, and the place of each cell after each offset, shape (n_cells, n_states).

    `displacements_km` are offsets to the east and north, shape (n_states, 2).
    """
    lat, lon = locations.to_degrees(locations.x_km, locations.y_km)
    reported = np.empty((2, locations.n_cells, len(displacements_km)))
    for state, (east_km, north_km) in enumerate(displacements_km.tolist()):
        reported[:, :, state] = rule(*moved(lat, lon, 1000 * north_km, 1000 * east_km))
    return places_of(locations, *reported)
