"""Changes in the users' lives: what changes, when, for whom, for how long and how fast."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from sim.components.registry import OneOf, Parameters, component
from sim.components.spec import Count, Days, Name, Positive
from sim.components.wording import found

SomeShare = Annotated[float, Field(gt=0, le=1)]


class ShiftParameters(Parameters):
    """A change in users' lives."""

    kind: str
    name: Name = Field(default_factory=lambda said: said.get("kind", "shift"))
    """How it is called in logs and figures; its kind unless said."""


class ShiftOfPeople(ShiftParameters):
    """A change in the lives of some users or of all."""

    at_query: Annotated[int, Field(ge=2, le=1_000_000)] | None = None
    """When: with each user's query of this number in the test."""
    at_day: Days | None = None
    """When: so many days after the test began; this or `at_query` must be said."""
    users: Annotated[list[str], Field(min_length=1)] | None = None
    """For whom: these ids; everybody unless this or `share` is said."""
    share: SomeShare | None = None
    """For whom: this share of the users, at least one, drawn at random."""
    for_queries: Count | None = None
    """For how many queries; for good unless this or `for_days` is said."""
    for_days: Days | None = None
    """For how many days."""

    @model_validator(mode="after")
    def _once(self) -> Self:
        said = [name for name in ("at_query", "at_day") if vars(self)[name] is not None]
        if len(said) != 1:
            raise ValueError(f"say when: allowed is one of `at_query` and `at_day`, found {'both' if said else 'none'}")
        for one, other in (("users", "share"), ("for_queries", "for_days")):
            if vars(self)[one] is not None and vars(self)[other] is not None:
                raise ValueError(f"`{one}` and `{other}` exclude each other: found both, allowed is one")
        return self


class ShiftOfPlaces(ShiftOfPeople):
    """A change of where people are, at once or bit by bit, altogether or in part."""

    over_queries: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """How fast: over so many queries the share of the new life rises steadily; at once unless said."""
    weight: SomeShare = 1.0
    """How much: the probability, in the end, that a query belongs to the new life and not to the old one."""

    @property
    def for_good(self) -> bool:
        """Whether the old life never comes back."""
        return self.for_queries is None and self.for_days is None


@component("shift")
class RelocateParameters(ShiftOfPlaces):
    """A move: another home with other places around it, or another place of work."""

    kind: Literal["relocate"] = "relocate"
    what: Literal["home", "work"] = "home"
    """What moves: home and all that belongs to it, or work and what is nearer to it than to home."""


@component("shift")
class NewPlacesParameters(ShiftOfPlaces):
    """Other favourite places around the same home."""

    kind: Literal["new_places"] = "new_places"


@component("shift")
class AdoptParameters(ShiftOfPlaces):
    """The life of another user, as it was before any shift."""

    kind: Literal["adopt"] = "adopt"
    of: str | None = None
    """Whose life: a user's id; the next user's unless said, and the first user's for the last."""
    what: Literal["profile", "trace"] = "profile"
    """Independent draws from the other's histogram in the test, or the other's cells in their order."""


@component("shift")
class HolidayParameters(ShiftOfPlaces):
    """A while elsewhere: independent visits around a place far from home."""

    kind: Literal["holiday"] = "holiday"
    away_km: Positive = 10.0
    """At least so far from home, or as far as the grid goes."""
    spread_km: Positive = 2.0
    """How far from that place the visits lie."""

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.for_queries is None and self.for_days is None:
            raise ValueError("a holiday ends: say `for_queries` or `for_days`, found neither")
        return self


@component("shift")
class RateParameters(ShiftOfPeople):
    """More queries or fewer, from the same life."""

    kind: Literal["rate"] = "rate"
    factor: Annotated[float, Field(ge=1e-3, le=1000)]
    """How many times as many queries as before: below 1 some are left out, above 1 some come in between."""


class ShiftOfRoads(ShiftParameters):
    """A change of the roads, for everybody at once: whoever departs later takes another way."""

    at_day: Days
    """When: so many days after the test began."""
    for_days: Days | None = None
    """For how many days; for good unless said."""

    @property
    def at_query(self) -> None:
        """Nobody's query is where it begins."""

    @property
    def for_queries(self) -> None:
        """Nobody's queries tell how long it is."""


@component("shift")
class CloseRoadsParameters(ShiftOfRoads):
    """Closed roads: a share of all, or those of some cells, as far as everybody still gets everywhere."""

    kind: Literal["close_roads"] = "close_roads"
    share: SomeShare | None = None
    """Which: this share of all roads, by direction, drawn at random."""
    cells: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] | None = None
    """Which: all roads with an end in one of these cells; this or `share` must be said."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.share is None) == (self.cells is None):
            both = "none" if self.share is None else "both"
            raise ValueError(f"say which roads: allowed is one of `share` and `cells`, found {both}")
        return self


@component("shift")
class ReverseRoadsParameters(ShiftOfRoads):
    """One-way roads go the other way, as far as everybody still gets everywhere."""

    kind: Literal["reverse_roads"] = "reverse_roads"
    share: SomeShare
    """This share of the one-way roads, drawn at random."""


def _as_mapping(value: Any) -> Any:
    if not isinstance(value, dict | ShiftParameters):
        raise ValueError(f"a shift is a mapping, such as {{kind: relocate, at_query: 301}}, found {found(value)}")
    return value


AnyShift = ShiftOfPeople | ShiftOfRoads

ShiftField = Annotated[AnyShift, BeforeValidator(_as_mapping), OneOf("shift", short=False)]
