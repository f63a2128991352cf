"""Configuration of a protected stream: mechanism, world, training data and policies, as the state file holds it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sim.components.custom import Custom
from sim.components.files import Place, parts_of
from sim.components.registry import ShortForm
from sim.components.spec import Spec
from sim.errors import InvalidValue, input_errors
from sim.inference import kernels
from sim.interfaces import Belief, Design
from sim.mobility.statistics import Statistics
from sim.protection.encoding import decode_array, encode_array
from sim.scenario.lppms import LPPMSpec
from sim.scenario.world import WorldSpec
from sim.world import World

Outside = Literal["refuse", "nearest"]
"""Answer to a position outside the region: no report, or that of the nearest cell."""


class Setup(Spec):
    """Configuration of a protected stream."""

    lppm: Annotated[LPPMSpec, ShortForm()]
    """Mechanism that protects each user."""
    world: WorldSpec = WorldSpec()
    """Cells and distances; the grid must have latitudes and longitudes."""
    markov_restart: Literal["never", "daily"] = "never"
    """Restart of Markov models, as in a scenario."""
    roads_seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Seed of random roads, as the seed of a scenario."""
    outside: Outside = "refuse"
    """Answer to a position outside the region."""
    noise_seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    """Seed of the noise, for tests only; default: entropy of the operating system for every report."""

    @model_validator(mode="after")
    def _can_be_protected(self) -> Self:
        if not self.world.where.on_earth:
            raise InvalidValue(
                f"a stream of latitudes and longitudes needs locations with coordinates, found "
                f"{self.world.where.kind}; allowed: grids of kind san_francisco or region, and locations in degrees",
                code="no-coordinates",
            )
        if self.lppm.lppm is not None:
            kind = self.lppm.lppm.kind
            raise InvalidValue(
                f"{kind}, without a belief, is a complete mechanism, whose state cannot be stored: write it as a "
                "custom design. If it is one, give it a belief: "
                f'`{{name: NAME, belief: fixed_profile, design: {{kind: "{kind}"}}}}`, in Python as `lppm`, on the '
                "command line under `lppms` of a scenario with `--scenario FILE --lppm NAME --allow-code`",
                code="complete-mechanism-in-stream",
            )
        if self.lppm.learns_from != "reports":
            raise InvalidValue(
                f"`learns_from: {self.lppm.learns_from}` is not supported for a stream: the state file would hold the "
                "true places of the user. Choose a mechanism that learns from its reports",
                code="learns-from-cells",
            )
        return self

    @property
    def restart_s(self) -> int | None:
        """Interval in seconds after which Markov models restart, or None."""
        return 86_400 if self.markov_restart == "daily" else None

    def canonical(self) -> dict[str, Any]:
        """Return the configuration with all defaults: equal values mean equal configurations."""
        return self.model_dump(mode="json")

    def build_world(self, place: Place) -> World:
        """Build the world."""
        with input_errors("world"):
            return self.world.build(self.roads_seed, place)

    def build_design(self, world: World) -> Design:
        """Build the design, which all users share."""
        with input_errors("lppm.design"):
            return self.lppm.design.build(world)

    def build_belief(self, world: World, statistics: Statistics) -> Belief:
        """Build the belief about one user."""
        with input_errors("lppm.belief"):
            return self.lppm.belief.build(statistics, self.restart_s, world)

    def allow_code(self, place: Place) -> None:
        """Grant access to custom components."""
        for part in parts_of(self):
            if isinstance(part, Custom):
                part.allow(place.code)


def encode_statistics(statistics: Statistics) -> dict[str, Any]:
    """Return training statistics as JSON, exactly."""
    return {
        "profile": encode_array(statistics.profile),
        "n_visits": statistics.n_visits,
        "pairs": encode_array(statistics.pairs),
        "counts": encode_array(statistics.pair_counts),
        "pooled": statistics.pooled,
    }


def decode_statistics(data: Mapping[str, Any]) -> Statistics:
    """Return the training statistics of `encode_statistics`."""
    return Statistics(
        profile=decode_array(data["profile"]),
        n_visits=data["n_visits"],
        pairs=decode_array(data["pairs"]),
        counts=decode_array(data["counts"]),
        pooled=data["pooled"],
    )


def versions() -> dict[str, str]:
    """Return what the last bits of a computation depend on."""
    return {
        "lppm-sim": version("lppm-sim"),
        "numpy": np.__version__,
        "kernels": "numpy" if kernels.compiled() is None else f"numba {version('numba')}",
        "machine": platform.machine(),
    }
