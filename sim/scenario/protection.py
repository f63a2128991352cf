"""Both sides of a scenario: the mechanisms that protect and the adversaries that attack."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    Tag,
    model_validator,
)
from pydantic_core.core_schema import CoreSchema

from sim.scenario.component import (
    Count,
    Custom,
    Days,
    Name,
    NonNegative,
    OwnComponent,
    Positive,
    Share,
    as_mapping,
    by_kind,
    short_form,
    tag_of,
)
from sim.scenario.spec import Spec


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


BeliefSpec = Annotated[
    Annotated[FixedProfileSpec, Tag("fixed_profile")]
    | Annotated[MarkovFilterSpec, Tag("markov_filter")]
    | Annotated[EstimatedProfileSpec, Tag("estimated_profile")]
    | Annotated[RecursiveProfileSpec, Tag("recursive_profile")]
    | Annotated[GravityFilterSpec, Tag("gravity_filter")]
    | OwnComponent,
    by_kind,
    short_form,
]


class ExponentialSpec(Spec):
    """Exponential mechanism: reports z with a probability proportional to exp(-epsilon d_Q(x, z))."""

    kind: Literal["exponential"]
    epsilon_per_km: NonNegative | None = None
    """Strength of the pull to the true cell; 1 unless it or a budget is given."""
    quality_budget_km: NonNegative | None = None
    """Instead of epsilon: calibrate, for each prior, to this expected loss on the mechanism's own model."""
    remap: bool = True
    """Replace each output by the best one for its posterior: never worse for the user, no worse for privacy."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        _not_both(self, "epsilon_per_km", "quality_budget_km")
        return self

    @property
    def uses_prior(self) -> bool:
        """Whether another belief makes another channel of it."""
        return _depends_on_prior(self)


class LocationHidingSpec(Spec):
    """Location hiding: reports the true cell with probability alpha, else any other cell."""

    kind: Literal["location_hiding"]
    reveal_probability: Share | None = None
    """alpha of the paper; 0.5 unless it or a budget is given."""
    quality_budget_km: NonNegative | None = None
    """Instead of alpha: calibrate, for each prior, to this expected loss on the mechanism's own model."""
    remap: bool = True
    """Replace each output by the best one for its posterior: never worse for the user, no worse for privacy."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        _not_both(self, "reveal_probability", "quality_budget_km")
        return self

    @property
    def uses_prior(self) -> bool:
        """Whether another belief makes another channel of it."""
        return _depends_on_prior(self)


def _depends_on_prior(spec: ExponentialSpec | LocationHidingSpec) -> bool:
    return spec.remap or spec.quality_budget_km is not None


def _not_both(spec: Spec, parameter: str, budget: str) -> None:
    if getattr(spec, parameter) is not None and getattr(spec, budget) is not None:
        raise ValueError(f"`{parameter}` and `{budget}` exclude each other: found both, allowed is one")


class IdentitySpec(Spec):
    """No protection: reports the true cell."""

    kind: Literal["identity"]

    @property
    def uses_prior(self) -> bool:
        """Whether another belief makes another channel of it."""
        return False


DesignSpec = Annotated[
    Annotated[ExponentialSpec, Tag("exponential")]
    | Annotated[LocationHidingSpec, Tag("location_hiding")]
    | Annotated[IdentitySpec, Tag("identity")]
    | OwnComponent,
    by_kind,
    short_form,
]

ShortLPPM = Literal[
    "SP-LH",
    "SP-Exp",
    "MK-LH",
    "MK-Exp",
    "PEB-LH",
    "PEB-Exp",
    "RPEB-LH",
    "RPEB-Exp",
    "PEB-MK-LH",
    "PEB-MK-Exp",
    "LH",
    "Exp",
    "identity",
]

_BELIEF_OF = {
    "SP": "fixed_profile",
    "MK": "markov_filter",
    "PEB": "estimated_profile",
    "RPEB": "recursive_profile",
    "PEB-MK": "gravity_filter",
}
_DESIGN_OF = {"LH": "location_hiding", "Exp": "exponential"}

SHORT_LPPMS: dict[str, dict[str, dict[str, Any]]] = {
    f"{belief}-{design}": {"belief": {"kind": _BELIEF_OF[belief]}, "design": {"kind": _DESIGN_OF[design]}}
    for belief in _BELIEF_OF
    for design in _DESIGN_OF
} | {
    "LH": {"belief": {"kind": "fixed_profile"}, "design": {"kind": "location_hiding", "remap": False}},
    "Exp": {"belief": {"kind": "fixed_profile"}, "design": {"kind": "exponential", "remap": False}},
    "identity": {"belief": {"kind": "fixed_profile"}, "design": {"kind": "identity"}},
}

ShortAttack = Literal["sporadic", "markov", "sporadic-trained", "markov-trained"]

SHORT_ATTACKS: dict[str, dict[str, Any]] = {
    "sporadic": {"belief": {"kind": "fixed_profile"}, "knows": "test"},
    "markov": {"belief": {"kind": "markov_filter"}, "knows": "test"},
    "sporadic-trained": {"belief": {"kind": "fixed_profile"}, "knows": "training"},
    "markov-trained": {"belief": {"kind": "markov_filter"}, "knows": "training"},
}


def _expand(value: Any, table: dict[str, dict[str, Any]]) -> Any:
    """Fill in what a short name stands for. The file may say more of a part, but not that it is of another kind."""
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str) or value["kind"] not in table:
        return value
    filled = {"name": value["kind"], **table[value["kind"]], **value}
    for part, default in table[value["kind"]].items():
        said = as_mapping(filled[part])
        if not isinstance(default, dict) or not isinstance(said, dict):
            continue
        if said.get("kind", default["kind"]) != default["kind"]:
            raise ValueError(
                f"{value['kind']} stands for the {part} {default['kind']}, found {said['kind']!r}: "
                "leave out `kind` and say a `name`, a belief and, for an LPPM, a design"
            )
        filled[part] = default | said
    return filled


def _forget_filled_in(spec: Spec, value: Any) -> None:
    """Count as said what the file says: another short name, swept, must not meet the parts of this one."""
    if not isinstance(value, dict):
        return
    spec.model_fields_set.intersection_update(value)
    for part in ("belief", "design"):
        if isinstance(value.get(part), dict) and "kind" not in value[part]:
            getattr(spec, part).model_fields_set.discard("kind")


def _short_names_allowed(schema: dict[str, Any], *parts: str) -> dict[str, Any]:
    """Let a JSON schema accept a short name in place of what it stands for, and parts of it without their kind."""
    said_apart = {"type": "object", "not": {"required": ["kind"]}}
    for part in parts:
        schema["properties"][part] = {"anyOf": [schema["properties"][part], said_apart]}
    schema["anyOf"] = [{"required": ["kind"]}, {"required": schema.pop("required")}]
    return schema


class LPPMSpec(Spec):
    """A mechanism: a belief about the user and a design that makes a channel of it. A short name names both."""

    kind: ShortLPPM | None = None
    name: Name
    """How it is called in logs and figures; its short name unless said."""
    belief: BeliefSpec
    """What it believes about the user."""
    design: DesignSpec
    """How it makes a channel of that."""
    training: str | None = None
    """Which training set; the first one unless said."""

    @property
    def is_memoryless(self) -> bool:
        """Whether its channel surely stays the same, whatever it reports. Of one's own classes nothing is sure."""
        if isinstance(self.belief, Custom) or isinstance(self.design, Custom):
            return False
        return isinstance(self.belief, FixedProfileSpec) or not self.design.uses_prior

    @model_validator(mode="wrap")
    @classmethod
    def _short_name(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        spec = handler(_expand(value, SHORT_LPPMS))
        _forget_filled_in(spec, value)
        return spec

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return _short_names_allowed(handler.resolve_ref_schema(handler(core)), "belief", "design")


class AttackSpec(Spec):
    """An adversary: a belief about the user with the optimal decision for d_P."""

    kind: ShortAttack | None = None
    name: Name
    """How it is called in logs and figures; its short name unless said."""
    belief: BeliefSpec
    """What she believes about the user."""
    knows: Literal["test", "whole_test", "training"] = "test"
    """Whose statistics: the user's own in force (the worst case), her own of all the test, or the training data's."""
    training: str | None = None
    """Which training set, for one who knows the training; the first one unless said."""

    @property
    def is_memoryless(self) -> bool:
        """Whether her estimate surely follows from the current report alone."""
        return isinstance(self.belief, FixedProfileSpec)

    @model_validator(mode="wrap")
    @classmethod
    def _short_name(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        spec = handler(_expand(value, SHORT_ATTACKS))
        _forget_filled_in(spec, value)
        return spec

    @model_validator(mode="after")
    def _trained(self) -> Self:
        _need_knowledge(self.knows, self.training)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return _short_names_allowed(handler.resolve_ref_schema(handler(core)), "belief")


def _need_knowledge(knows: str, training: str | None) -> None:
    if training is not None and knows != "training":
        raise ValueError(
            f"`training` is for an adversary with `knows: training`, found {training!r} with `knows: {knows}`"
        )


class OwnAttack(Custom):
    """One's own attack, imported from `module`."""

    name: Name
    knows: Literal["test", "whole_test", "training"] = "test"
    training: str | None = None

    @model_validator(mode="after")
    def _trained(self) -> Self:
        _need_knowledge(self.knows, self.training)
        return self


def _attack_tag(value: Any) -> str:
    return "module:Class" if tag_of(value) == "module:Class" else "attack"


AnyAttack = Annotated[
    Annotated[AttackSpec, Tag("attack")] | Annotated[OwnAttack, Tag("module:Class")],
    Discriminator(_attack_tag),
    short_form,
]
