"""The people of a scenario: how they move, when they query, and who the training data come from."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Tag, model_validator

from sim.components.files import FileName
from sim.components.kinds import Count, Days, NonNegative, OwnComponent, Positive, Share, by_kind, short_form
from sim.scenario.reading.validation import Spec

MOST_QUERIES = 100_000_000


class FavouritesSpec(Spec):
    """Check-ins: independent draws from a heavy-tailed taste of favourite places, and some exploration."""

    kind: Literal["favourites"]
    places: Count = 10
    """How many favourite places a user has."""
    taste: NonNegative = 1.2
    """Zipf exponent of the taste: 0 likes all favourites alike, 2 nearly always goes to the first."""
    explore: Share = 0.1
    """Probability that a visit goes anywhere in the city instead."""
    spread_km: Positive = 3.0
    """How far from home the favourites lie."""
    visits_per_day: Annotated[float, Field(ge=1e-3, le=86_400)] = 4.0
    """Mean number of visits a day."""


class MarkovChainSpec(Spec):
    """A Markov chain on the cells: stays, or goes to an attractive cell within reach."""

    kind: Literal["markov"]
    stay: Share = 0.3
    """Probability of staying in the cell at a step."""
    reach_km: Positive = 2.0
    """How far a step goes, on average."""
    step_s: Count = 300
    """Seconds between two steps."""


class CommutersSpec(Spec):
    """People with home, work and leisure on the roads, in a daily rhythm; day 1 is a Monday, days 6 and 7 are off."""

    kind: Literal["commuters"]
    leisure_places: Annotated[int, Field(ge=0, le=1_000_000)] = 4
    """How many places of leisure a user has."""
    leisure_share: Share = 0.5
    """Probability of going out after work, or on a day off."""
    work_start_h: Annotated[float, Field(ge=0, lt=24)] = 9.0
    """Hour at which work begins, on average."""
    work_hours: Annotated[float, Field(gt=0, le=16)] = 8.0
    """Length of a working day, on average."""
    jitter_h: Annotated[float, Field(ge=0, le=12)] = 0.7
    """How much the daily rhythm varies."""


class TaxisSpec(Spec):
    """Cabs on the road graph that look for passengers at hot spots and drive them along directed streets."""

    kind: Literal["taxis"]
    hotspots: Annotated[int, Field(ge=1, le=1000)] = 6
    """How many centres of life the city has."""
    wait_s: NonNegative = 300.0
    """Mean wait for a passenger."""
    shift_h: Annotated[float, Field(gt=0, le=24)] = 24.0
    """Hours a day on the road; the rest is spent at a depot."""
    near_share: Share = 0.7
    """Share of passengers that are picked up nearby."""
    near_km: Positive = 2.0
    """What is nearby."""


class Selection(Spec):
    """Which users of a trace file: each filter narrows what the ones before it left."""

    users: list[str] | None = None
    """These ids only."""
    min_visits: Count | None = None
    """Those with at least so many visits in the region."""
    first: Count | None = None
    """The first so many of them (in numeric order of id, else in file order)."""
    last: Count | None = None
    """The last so many of those."""
    exclude: Selection | None = None
    """Without those that this selection picks from all users of the file."""


class Columns(Spec):
    """How the columns of a trace file are called, where their names cannot be guessed."""

    user: str | None = None
    """Who."""
    time: str | None = None
    """When: seconds, or ISO-8601 text."""
    order: str | None = None
    """In which order, where there is no time."""
    lat: str | None = None
    """Latitude in degrees."""
    lon: str | None = None
    """Longitude in degrees."""
    cell: str | None = None
    """The cell, instead of lat and lon."""


class RecordedDays(Spec):
    """Whole days of a trace file: those that are seen well enough, each with one visit in every slot."""

    longest_silence_h: Annotated[float, Field(gt=0, le=24)] = 2.0
    """Days with a longer silence in the region are left out."""
    first: Count | None = None
    """Only each user's first so many of these days; who has fewer is left out."""
    slot_s: Annotated[int, Field(ge=1, le=86_400)] = 300
    """Length of a slot in seconds: where she was last seen before its end is where she is in it."""


class ReplaySpec(Spec):
    """Recorded traces from a CSV or Parquet file: user, time or order, and lat and lon or a cell."""

    kind: Literal["replay"]
    file: FileName
    """CSV (compressed or not) or Parquet."""
    columns: Columns = Columns()
    """How its columns are called, where their names cannot be guessed."""
    select: Selection = Selection()
    """Which of its users; all unless said."""
    days: RecordedDays | None = None
    """Only whole days of the file, cut into slots; the selection is then among those who have such days."""
    visits: Count | None = None
    """Only each user's first so many visits."""
    shuffle: bool = False
    """Shuffle the cells of each trace anew in every replication, as the paper's Experiment SP does."""
    utc_offset_h: Annotated[float, Field(ge=-14, le=14)] = 0.0
    """Local time, for where a day begins."""
    max_gap_s: Annotated[int, Field(ge=1, le=100_000_000_000)] = 7200
    """Longest gap between visits, in seconds, that a position is carried over; no demand queries in a longer one."""


MobilitySpec = Annotated[
    Annotated[FavouritesSpec, Tag("favourites")]
    | Annotated[MarkovChainSpec, Tag("markov")]
    | Annotated[CommutersSpec, Tag("commuters")]
    | Annotated[TaxisSpec, Tag("taxis")]
    | Annotated[ReplaySpec, Tag("replay")]
    | OwnComponent,
    by_kind,
    short_form,
]


class EveryVisitSpec(Spec):
    """A query at every visit."""

    kind: Literal["every_visit"] = "every_visit"


class PeriodicSpec(Spec):
    """A query every `period_s` seconds; the user is where she was last seen (see `max_gap_s` of a replay)."""

    kind: Literal["periodic"]
    period_s: Count = 300
    """Seconds between two queries."""


class PoissonSpec(Spec):
    """Queries at random moments."""

    kind: Literal["poisson"]
    per_hour: Annotated[float, Field(ge=1e-3, le=3600)] = 1.0
    """Mean number of queries an hour."""


DemandSpec = Annotated[
    Annotated[EveryVisitSpec, Tag("every_visit")]
    | Annotated[PeriodicSpec, Tag("periodic")]
    | Annotated[PoissonSpec, Tag("poisson")]
    | OwnComponent,
    by_kind,
    short_form,
]


class UsersSpec(Spec):
    """The test population: who is protected and attacked."""

    mobility: MobilitySpec
    """Where they go."""
    demand: DemandSpec = EveryVisitSpec()
    """When they query."""
    count: Count | None = None
    """How many users: 10 synthetic ones, or all of a trace file, unless said."""
    queries: Count | None = None
    """At most so many queries each."""
    days: Days | None = None
    """At most so many days, after those of the past."""
    past_queries: Count | None = None
    """So many first queries are the user's past: not simulated, there to be trained on."""
    past_days: Days | None = None
    """So many first days are the user's past: not simulated, there to be trained on."""
    past_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """This share of each recorded trace, such as its first half, is the user's past."""

    @property
    def same_each_time(self) -> bool:
        """Whether every replication has the same queries, in whatever order: none of them is drawn at random."""
        if not isinstance(self.mobility, ReplaySpec):
            return False
        cuts = (self.queries, self.days, self.past_queries, self.past_days, self.past_share)
        if self.mobility.shuffle and any(cut is not None for cut in cuts):
            return False  # what comes first, and is kept, is another part of the trace each time
        return isinstance(self.demand, EveryVisitSpec) or (
            isinstance(self.demand, PeriodicSpec) and not self.mobility.shuffle
        )

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.queries is None and self.days is None and not isinstance(self.mobility, ReplaySpec):
            raise ValueError("synthetic users live for ever: say how many `queries` or `days`, found neither")
        pasts = [name for name in ("past_queries", "past_days", "past_share") if getattr(self, name) is not None]
        if len(pasts) > 1:
            raise ValueError(f"`{'` and `'.join(pasts)}` say the same thing twice, allowed is one")
        if self.past_share is not None and (self.days is not None or not isinstance(self.mobility, ReplaySpec)):
            raise ValueError("`past_share` cuts a recorded trace: allowed with `mobility: replay` and without `days`")
        if self.past_queries is not None and self.days is not None:
            raise ValueError(
                "`days` are counted from the end of `past_days`, found them with `past_queries`: "
                "use `past_days` and `days`, or `past_queries` and `queries`"
            )
        asked = (self.count or 1) * ((self.queries or 0) + (self.past_queries or 0))
        if asked > MOST_QUERIES:
            raise ValueError(f"`count` users x `queries` must be at most {MOST_QUERIES:,}, found {asked:,}")
        return self


class OthersSpec(Spec):
    """Other people's traces, pooled: scarce or rich by their number."""

    kind: Literal["others"]
    mobility: MobilitySpec | None = None
    """As the users' unless said."""
    demand: DemandSpec | None = None
    """As the users' unless said."""
    count: Count | None = None
    """How many: 10 synthetic people, or all of a trace file, unless said."""
    queries: Count | None = None
    """At most so many queries each; unless this or `days` is said, as the users."""
    days: Days | None = None
    """At most so many days; unless this or `queries` is said, as the users."""


class OwnPastSpec(Spec):
    """The user's own past: the first queries or days before the test begins, or all of it."""

    kind: Literal["own_past"]
    queries: Count | None = None
    """Only her first so many queries."""
    days: Days | None = None
    """Only her first so many days."""


class OtherUserSpec(Spec):
    """The past of another user, the next one in order, as in the paper's appendix."""

    kind: Literal["other_user"]
    queries: Count | None = None
    """Only the first so many queries."""
    days: Days | None = None
    """Only the first so many days."""


class OwnTestSpec(Spec):
    """The user's own statistics in the test, which no mechanism can have: for bounds of what one could reach."""

    kind: Literal["own_test"]


class NothingSpec(Spec):
    """No training data at all: everything is equally likely."""

    kind: Literal["nothing"] = "nothing"


TrainingSpec = Annotated[
    Annotated[OthersSpec, Tag("others")]
    | Annotated[OwnPastSpec, Tag("own_past")]
    | Annotated[OtherUserSpec, Tag("other_user")]
    | Annotated[OwnTestSpec, Tag("own_test")]
    | Annotated[NothingSpec, Tag("nothing")],
    by_kind,
    short_form,
]
