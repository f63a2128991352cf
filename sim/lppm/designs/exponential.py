"""The exponential mechanism (Oya et al. 2019, Sect. V)."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from sim.components.registry import component
from sim.components.spec import NonNegative, Share
from sim.errors import InvalidValue
from sim.interfaces import Channel, FloatArray
from sim.lppm.calibration import ByEpsilon, expected_loss_km, revealed_share
from sim.lppm.channels.base import BaseChannel
from sim.lppm.channels.constant import ConstantChannel
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.mix import MixChannel
from sim.lppm.channels.planar import PlanarRemappedChannel, require_table_of_outputs
from sim.lppm.channels.remapped import RemappedChannel
from sim.lppm.parameters import CalibratedParameters, ShortNames, WorldSize
from sim.lppm.strength import RealisedBudget, StrengthRange, epsilon_range
from sim.world import World
from sim.world.distance import Distance
from sim.world.locations import Locations

_BELIEFS = ("SP", "MK", "PEB", "RPEB", "PEB-MK", "PEB-SPMK")


@component("design")
class ExponentialParameters(CalibratedParameters):
    """Exponential mechanism: reports z with a probability proportional to exp(-epsilon d_Q(x, z))."""

    short_names: ClassVar = (
        ShortNames(design="Exp", beliefs=_BELIEFS, full=True, alone={"remap": False}),
        ShortNames(design="Mix", beliefs=_BELIEFS, parameters={"reveal_probability": 0.3}),
        ShortNames(design="AMix", beliefs=_BELIEFS, parameters={"coin_share": 0.5}),
    )
    strength_name: ClassVar = "epsilon_per_km"
    default_strength: ClassVar = 1.0

    kind: Literal["exponential"] = "exponential"
    epsilon_per_km: NonNegative | None = None
    """Decay rate of the report probability with distance, per km (default: 1)."""
    quality_budget_km: NonNegative | RealisedBudget | None = None
    """Expected quality loss in km under the mechanism's own prior. Replaces `epsilon_per_km`, which is calibrated to
    this loss for each prior. `{realised: 0.3}` refers to the mean loss of the users in the run instead; with `at:
    0.95`, to that of 95 % of them."""
    remap: bool | Literal["plane"] = True
    """Replace each output by the cell with the smallest expected loss under its posterior. This never increases the
    expected loss and, as post-processing, does not reduce privacy. `plane`: by the best point of the plane, rounded to
    metres, which loses even less between scattered locations; requires a Euclidean or Manhattan quality distance."""
    reveal_probability: Share = 0.0
    """Probability of sending the true cell instead of a remapped output (the mix). Requires `remap: true`. A budget
    calibrates epsilon for this probability."""
    coin_share: Share = 0.0
    """Adapts the probability of sending the true cell to the prior (the adaptive mix): this share of the probability
    with which a coin of the same expected loss reveals it. Replaces `reveal_probability`; requires `remap: true`."""

    @model_validator(mode="after")
    def _reveals_beside_a_remap(self) -> Self:
        given = [name for name in ("reveal_probability", "coin_share") if vars(self)[name] > 0]
        if given and self.remap is not True:
            raise InvalidValue(
                f"`{given[0]}` above 0 requires `remap: true`, found {vars(self)[given[0]]} with "
                f"`remap: {str(self.remap).lower()}`: remove one of the two keys",
                code="exclusive-keys",
            )
        if len(given) > 1:
            raise InvalidValue(
                "found `reveal_probability` together with `coin_share`, which replaces it: remove one of the two keys",
                code="exclusive-keys",
            )
        return self

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior."""
        return bool(self.remap) or self.budget_km is not None

    @property
    def countless(self) -> bool:
        """Whether there are too many outputs to enumerate: those in the plane."""
        return self.remap == "plane"

    @property
    def strength_range(self) -> StrengthRange:
        """The parameter that a realised budget replaces."""
        return epsilon_range()

    def require_feasible(self, size: WorldSize) -> None:
        """Raise `InvalidValue` if the distance needs a matrix that is too large, or a budget too many outputs."""
        size.require_dense_unless("manhattan", "euclidean")
        if self.remap == "plane":
            size.require_plane()
        if size.quality == "euclidean" and self.remap and (self.budget_km is not None or self.coin_share > 0):
            require_table_of_outputs(size.n_cells, size.quality)

    def build(self, world: World) -> Exponential:
        """Return the design for the quality distance of a world."""
        plane = world.locations if self.remap == "plane" else None
        return Exponential(self, distance=world.quality_distance, plane=plane)


class Exponential(ByEpsilon):
    """The exponential mechanism f(z | x) ∝ exp(-epsilon d_Q(x, z)): Exp of Oya et al. 2019, Sect. V.

    `distance` is the quality distance d_Q. The mechanism is 2 epsilon-geo-indistinguishable in it, because each row has
    a separate normalising constant. If the budget exceeds the loss of revealing nothing, epsilon is 0.

    With `reveal_probability` a above 0, the true cell is sent with probability a, otherwise a remapped output (the
    mix). The mechanism then guarantees no epsilon, and its expected loss is 1 - a times that without a. With
    `coin_share` s instead, a = s (1 - L / P0) depends on the prior: L is the expected loss of the exponential mechanism
    and P0 that of revealing nothing, so that 1 - L / P0 is the a of a coin with the same loss (the adaptive mix).
    """

    def __init__(
        self, parameters: ExponentialParameters, *, distance: Distance, plane: Locations | None = None
    ) -> None:
        super().__init__(
            make=partial(exponential, distance),
            distance=distance,
            epsilon_per_km=parameters.strength,
            budget_km=parameters.budget_km,
            remap=bool(parameters.remap),
            plane=plane,
        )
        self._reveal_probability, self._coin_share = parameters.reveal_probability, parameters.coin_share

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        channel = super().__call__(prior)
        reveal = self._reveal_probability
        if self._coin_share > 0:
            reveal = self._adapted(expected_loss_km(channel, prior, self._distance), prior)
        if reveal == 0:
            return channel
        assert isinstance(channel, RemappedChannel | PlanarRemappedChannel)
        return MixChannel(channel, reveal_probability=reveal)

    def _loss_km(self, base: BaseChannel, prior: FloatArray) -> float:
        loss_km = super()._loss_km(base, prior)
        reveal = self._adapted(loss_km, prior) if self._coin_share > 0 else self._reveal_probability
        return (1 - reveal) * loss_km

    def _adapted(self, loss_km: float, prior: FloatArray) -> float:
        """Return the probability of sending the true cell, given the expected loss otherwise."""
        nothing = ConstantChannel(n_cells=prior.size, output=self._distance.best_cell(prior))
        return self._coin_share * revealed_share(nothing.loss_km(prior, self._distance), loss_km)
