"""What somebody, mechanism or adversary, may believe about a user, as a scenario says it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Tag, model_validator

from sim.components.kinds import Count, Days, NonNegative, OwnComponent, Positive, Share, by_kind, short_form
from sim.scenario.reading.validation import Spec


class FixedProfileSpec(Spec):
    """Sporadic, hardwired (SP): the profile never changes."""

    kind: Literal["fixed_profile"]


class MarkovFilterSpec(Spec):
    """Markov, hardwired (MK): filters the reports with a fixed transition matrix."""

    kind: Literal["markov_filter"]


class ForgetSpec(Spec):
    """How past reports lose their weight: a half-life or a window, and a test for changes on top of it or alone."""

    half_life_queries: Positive | None = None
    """A report's weight halves with every so many reports after it; after ten half-lives it is dropped."""
    half_life_days: Days | None = None
    """The same by the days that have passed."""
    window: Count | None = None
    """Only the last so many reports count, all alike."""
    adaptive: bool = False
    """Test the reports for a change of the profile, and forget what is older than one."""
    queries_per_false_alarm: Annotated[float, Field(ge=2, le=1e12)] = 1000.0
    """Of the test: an alarm without a change comes once in so many queries at most, as far as the estimate is right."""
    recent: Count = 20
    """Of the test: the estimate from so many last reports is compared with that from all."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        said = [name for name in ("half_life_queries", "half_life_days", "window") if getattr(self, name) is not None]
        if len(said) > 1:
            found = " and ".join(f"`{name}`" for name in said)
            raise ValueError(f"found {found}, allowed is one of them: they exclude each other")
        if not said and not self.adaptive:
            raise ValueError(
                "nothing is forgotten: say `half_life_queries`, `half_life_days`, `window` or `adaptive: true`, "
                "or `forget: none`"
            )
        return self


class RegulariseSpec(Spec):
    """What keeps the estimate of a profile from saying more than the reports do."""

    prior_reports: Positive = 3.0
    """How many reports the initial profile is worth, as the centre of a Dirichlet prior."""
    smooth_km: NonNegative = 0.0
    """Each place is a blot that falls by e with every so many km of d_Q; with 0, a cell."""


class EstimatedProfileSpec(Spec):
    """Sporadic, blank-slate (PEB): the profile is estimated from the reports by maximum likelihood."""

    kind: Literal["estimated_profile"]
    fading: NonNegative = 0.5
    """gamma of the paper: how fast the initial profile fades."""
    initial: Literal["training", "uniform"] = "training"
    """pi_ini of the paper."""
    solver: Literal["newton", "em"] = "newton"
    """newton: certified and fast; em: the paper's iteration."""
    gap: Annotated[float, Field(gt=0, le=1e6)] = 1e-6
    """Stop when the mean log-likelihood is certainly within this of the best. A large gap is another estimator."""
    start: Literal["uniform", "initial"] = "uniform"
    """Where the iteration starts; cells that the reports cannot tell apart share their mass as in the start."""
    max_iterations: Count | None = None
    """Give up after so many; the gap that was reached is in the manifest. Unless said, far more than are needed."""
    forget: Literal["none"] | ForgetSpec = "none"
    """How past reports lose their weight; with none, all count alike for ever, as in the paper."""
    regularise: Literal["none"] | Literal["cross_validated"] | RegulariseSpec = "none"
    """A prior that takes the place of `fading` and `start`, said or chosen by its forecasts of the reports so far."""

    @model_validator(mode="after")
    def _one_prior(self) -> Self:
        said = [f"`{name}`" for name in ("fading", "start") if name in self.model_fields_set]
        if self.regularise != "none" and said:
            found = " and ".join(said)
            raise ValueError(
                f"found {found} with `regularise`, whose prior takes their place: leave out one or the other"
            )
        return self


class RecursiveProfileSpec(Spec):
    """Sporadic, blank-slate (RPEB): each report adds to the profile the posterior it led to, once and for all."""

    kind: Literal["recursive_profile"]
    initial: Literal["training", "uniform"] = "training"
    """What is believed before the first report."""
    prior_reports: Positive = 0.3
    """How many reports the initial profile is worth, which is never forgotten."""
    half_life_queries: Literal["none"] | Positive = 10.0
    """A report's weight halves with every so many reports after it; with none, all count alike for ever."""


class GravityFilterSpec(Spec):
    """Markov, blank-slate (PEB-MK): filters the reports with transitions that it learns from them, by gravity."""

    kind: Literal["gravity_filter"]
    initial: Literal["training", "uniform", "roads"] = "training"
    """What attracts before the first report: where others went, all cells alike, or cells by their crossings."""
    reaches_km: Annotated[list[Positive], Field(min_length=1, max_length=8)] = [2.5, 12.0]
    """How far people go from one query to the next, along roads where there are any: one law for each."""
    stays: Annotated[list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=1, max_length=8)] = [0.1, 0.5]
    """How often they stay in a cell: one law for each."""
    prior_reports: Positive = 1.0
    """How many reports the initial attraction is worth, which is never forgotten."""
    half_life_queries: Literal["none"] | Positive = 10.0
    """A report's weight in the attraction halves with every so many reports after it; with none, never."""
    transitions: Literal["training", "learned", "none"] = "training"
    """Counts of transitions as one more law: those of the training, where there are any; these and what reports add."""


class EstimatedMarkovSpec(Spec):
    """Markov, blank-slate (Markov EM): filters the reports with transitions that Baum-Welch learns from them."""

    kind: Literal["markov_em"]
    initial: Literal["training", "uniform"] = "training"
    """What is believed before the first report: profile and transitions of the training, or that all is alike."""
    prior_reports: Positive = 1.0
    """How many reports the initial statistics are worth."""
    prior_steps: Positive = 3.0
    """How many steps from each cell it is worth that people go where they are wont to be, wherever they come from."""
    refit_growth: Annotated[float, Field(ge=1.001, le=100)] = 1.1
    """Learn anew when there are so many times the reports; in between the filter goes on."""
    iterations: Annotated[int, Field(ge=1, le=10_000)] = 5
    """Steps of EM each time, from the same start; many fit the noise."""
    window: Annotated[int, Field(ge=2, le=1_000_000)] = 500
    """Only the last so many reports count."""


class HomeProfileSpec(Spec):
    """Sporadic, but for one unknown home at night, which is inferred from the reports of all nights together."""

    kind: Literal["home"]
    from_h: Annotated[float, Field(ge=0, le=24)] = 22.0
    """The hour of the day from which on people are at home."""
    until_h: Annotated[float, Field(ge=0, le=24)] = 6.0
    """The hour until which they are, the next morning if it is an earlier one."""
    away: Share = 0.1
    """How often they are elsewhere all the same."""
    utc_offset_h: Annotated[float, Field(ge=-14, le=14)] = 0.0
    """Hours to add to the users' clock, where that is not local time."""
    half_life_days: Days | None = None
    """What a report says of the home counts half after so many days; unless said, for ever."""

    @model_validator(mode="after")
    def _some_hours(self) -> Self:
        if self.from_h % 24 == self.until_h % 24:
            raise ValueError(
                f"`from_h` and `until_h` must be different hours of the day, found {self.from_h} and {self.until_h}"
            )
        return self


BeliefSpec = Annotated[
    Annotated[FixedProfileSpec, Tag("fixed_profile")]
    | Annotated[MarkovFilterSpec, Tag("markov_filter")]
    | Annotated[EstimatedProfileSpec, Tag("estimated_profile")]
    | Annotated[RecursiveProfileSpec, Tag("recursive_profile")]
    | Annotated[GravityFilterSpec, Tag("gravity_filter")]
    | Annotated[EstimatedMarkovSpec, Tag("markov_em")]
    | Annotated[HomeProfileSpec, Tag("home")]
    | OwnComponent,
    by_kind,
    short_form,
]
