"""Mechanisms that replace coordinates by those of a coarser grid, without randomness."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from sim.interfaces import Channel, FloatArray, IntArray
from sim.lppm.channels.table import TableChannel
from sim.lppm.outputs import Places
from sim.lppm.place_loss import loss_of_place_km
from sim.world.distance import Distance
from sim.world.locations import Locations

Rule = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
"""A function from latitudes and longitudes to those that are reported, element by element."""

_DECIMALS = 6
"""Decimals of coordinates in km: places nearer than a millimetre are one place."""


class Coarsening:
    """Report the output of a rule for the latitude and longitude of the cell's centre.

    The world knows positions up to a cell: the rule is applied to the centre of the cell, and all positions in a cell
    share one output. If cells are smaller than the steps of the rule, outputs are those of a real device except in
    cells that a border of the mechanism's grid crosses.
    """

    uses_prior = False

    def __init__(self, rule: Rule, *, locations: Locations, distance: Distance) -> None:
        lat, lon = locations.to_degrees(locations.x_km, locations.y_km)
        self.space, table = places_of(locations, *rule(lat, lon))
        self._channel = TableChannel(
            table,
            n_outputs=self.space.count,
            space=self.space,
            loss_km=partial(loss_of_place_km, self.space, distance),
        )

    def __call__(self, prior: FloatArray) -> Channel:  # noqa: ARG002
        """Return the channel, which is the same for every prior."""
        return self._channel


def places_of(locations: Locations, lat: FloatArray, lon: FloatArray) -> tuple[Places, IntArray]:
    """Return the distinct places of some coordinates, and the number of the place of each, in the shape of `lat`."""
    x_km, y_km = locations.to_km(lat, lon)
    pairs = np.round(np.stack([y_km.ravel(), x_km.ravel()], axis=1), _DECIMALS) + 0.0  # no negative zeros
    distinct, number = np.unique(pairs, axis=0, return_inverse=True)
    space = Places(locations, x_km=tuple(distinct[:, 1].tolist()), y_km=tuple(distinct[:, 0].tolist()))
    return space, number.reshape(np.shape(lat)).astype(np.int64)
