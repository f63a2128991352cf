"""Privacy zone: no reports within a circle around home."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from sim.components.registry import component
from sim.components.spec import NonNegative, Positive
from sim.errors import InvalidValue
from sim.interfaces import Channel, FloatArray, IntArray
from sim.lppm.channels.table import TableChannel
from sim.lppm.designs.phones.circle import SAME_KM, in_circle
from sim.lppm.designs.phones.hidden_zone import HiddenZone, HiddenZoneChannel
from sim.lppm.designs.phones.parameters import PhoneParameters
from sim.lppm.outputs import CellsOrNothing
from sim.lppm.parameters import ShortNames
from sim.world import World
from sim.world.distance import Distance
from sim.world.locations import Locations

Inside = Literal["drop", "centre", "border"]


@component("design")
class PrivacyZoneParameters(PhoneParameters):
    """Privacy zone: reports the true cell, except within a circle around home, where it reports nothing."""

    short_names: ClassVar = (
        ShortNames(design="Zone", beliefs=("SP",)),
        ShortNames(design="HiddenZone", beliefs=("SP",), parameters={"place": "hidden"}),
        ShortNames(design="RandomZone", beliefs=("SP",), parameters={"place": "random"}),
    )
    source: ClassVar[str] = "Hassan et al., USENIX Security 2018 (Strava, Garmin); OpenBikeSensor firmware, src/gps.cpp"

    kind: Literal["privacy_zone"] = "privacy_zone"
    radius_m: Positive = 500.0
    """Radius of the zone in m; the default is that of OpenBikeSensor."""
    place: Literal["known", "hidden", "random"] = "known"
    """Centre of the zone. known: home, and the adversary knows where it is; hidden: home, which the adversary infers
    from the reports; random: displaced from home at random by 0.1 to 0.9 radii, as in OpenBikeSensor, and hidden."""
    inside: Inside = "drop"
    """Report inside the zone: drop, nothing; centre, the centre of the zone; border, the nearest cell outside. A hidden
    or random zone drops."""
    drop_loss_km: NonNegative | None = None
    """Quality loss in km of a query without a report. By default the service answers for home."""

    @property
    def has_memory(self) -> bool:
        """Whether outputs depend on a secret of the mechanism: the centre of the zone."""
        return self.place != "known"

    @model_validator(mode="after")
    def _hidden_zones_drop(self) -> Self:
        if self.has_memory and self.inside != "drop":
            raise InvalidValue(
                f"`place: {self.place}` needs `inside: drop`, found `inside: {self.inside}`, which shows where the "
                "zone is: remove one of the two keys",
                code="exclusive-keys",
            )
        return self

    def step(self, locations: Locations) -> tuple[str, float, float] | None:  # noqa: ARG002
        """Return the diameter of the zone in km, after the parameter that sets it and its value."""
        return "radius_m", self.radius_m, 2 * self.radius_m / 1000

    def build(self, world: World) -> PrivacyZone:
        """Return the design for the grid and the quality distance of a world."""
        return PrivacyZone(self, locations=world.locations, distance=world.quality_distance)


class PrivacyZone:
    """Report the true cell outside a circle around home, and nothing, its centre or its border inside.

    Home is the most probable cell of the belief, the lowest one of several: with the short names and a training set of
    the user's own data, the cell that they visit most. The zone contains the cells whose centres are nearer to its
    centre than `radius_m`. A missing report reveals that the user is in the zone.

    By default the adversary knows the zone, as the channel in force is public. This is the state after a few tracks:
    their ends lie on the circle, and three points determine it (Hassan et al. 2018 put 95 % of moderately active users
    at risk). If the zone is `hidden` or `random`, it is a secret of the mechanism, see `HiddenZone`.
    """

    uses_prior = True

    def __init__(self, parameters: PrivacyZoneParameters, *, locations: Locations, distance: Distance) -> None:
        self.space = CellsOrNothing(locations.n_cells)
        self._inside = parameters.inside
        self._radius_km = parameters.radius_m / 1000
        self._drop_loss_km = parameters.drop_loss_km
        self._locations, self._distance = locations, distance
        self.hidden_state = (
            HiddenZone(locations, self._radius_km, random_centre=parameters.place == "random")
            if parameters.has_memory
            else None
        )
        """The secret centre of the zone; None if the adversary knows it."""

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        home = int(prior.argmax())
        loss_km = partial(loss_of_report_km, self._distance, home, self._drop_loss_km)
        if self.hidden_state is not None:
            return HiddenZoneChannel(self.hidden_state, home=home, loss_km=loss_km)
        table = outputs_of(self._locations, home, self._radius_km, self._inside)
        return TableChannel(table, n_outputs=self._locations.n_cells + 1, space=self.space, loss_km=loss_km)


def outputs_of(locations: Locations, centre: int, radius_km: float, inside: Inside) -> IntArray:
    """Return the output of each cell: its own number, or that of `inside` for cells within the circle."""
    zone = in_circle(locations, centre, radius_km)
    table = np.arange(locations.n_cells)
    match inside:
        case "drop":
            table[zone] = locations.n_cells
        case "centre":
            table[zone] = centre
        case "border" if zone.all():
            table[zone] = locations.n_cells  # the zone covers the world
        case "border":
            outside = np.flatnonzero(~zone)
            for cell in np.flatnonzero(zone).tolist():
                away_km = np.hypot(
                    locations.x_km[outside] - locations.x_km[cell], locations.y_km[outside] - locations.y_km[cell]
                )
                table[cell] = outside[np.argmax(away_km <= away_km.min() + SAME_KM)]
    return table


def loss_of_report_km(distance: Distance, home: int, drop_loss_km: float | None, cell: int, output: int) -> float:
    """Return the loss in km of an output: without a report, that of an answer for home, or `drop_loss_km`."""
    if output < distance.n_cells:
        return float(distance.between_km(cell, output))
    return float(distance.between_km(cell, home)) if drop_loss_km is None else drop_loss_km
