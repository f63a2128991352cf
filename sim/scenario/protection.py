"""Both sides of a scenario: the mechanisms that protect and the adversaries that attack."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, GetJsonSchemaHandler, ModelWrapValidatorHandler, Tag, model_validator
from pydantic_core.core_schema import CoreSchema

from sim.components.kinds import Count, Custom, Name, Share, as_mapping, short_form, tag_of
from sim.scenario.beliefs import BeliefSpec, FixedProfileSpec, MarkovFilterSpec
from sim.scenario.designs import DesignSpec
from sim.scenario.reading.faults import shown
from sim.scenario.reading.validation import Spec

ShortLPPM = Literal[
    "SP-LH",
    "MK-LH",
    "PEB-LH",
    "RPEB-LH",
    "PEB-MK-LH",
    "SP-Exp",
    "MK-Exp",
    "PEB-Exp",
    "RPEB-Exp",
    "PEB-MK-Exp",
    "SP-PL",
    "PEB-PL",
    "SP-PG",
    "PEB-PG",
    "SP-Opt",
    "MK-Opt",
    "PEB-Opt",
    "SP-GeoOpt",
    "PEB-GeoOpt",
    "PEB-full-LH",
    "PEB-full-Exp",
    "SP-Cloak",
    "SP-Snap",
    "LH",
    "Exp",
    "PL",
    "PG",
    "Snap",
    "Drop",
    "Dummies",
    "identity",
]

_BELIEF_OF = {
    "SP": "fixed_profile",
    "MK": "markov_filter",
    "PEB": "estimated_profile",
    "RPEB": "recursive_profile",
    "PEB-MK": "gravity_filter",
}
_DESIGN_OF: dict[str, tuple[str, tuple[str, ...]]] = {
    "LH": ("location_hiding", tuple(_BELIEF_OF)),
    "Exp": ("exponential", tuple(_BELIEF_OF)),
    "PL": ("planar_laplace", ("SP", "PEB")),
    "PG": ("planar_geometric", ("SP", "PEB")),
    "Opt": ("optimal_privacy", ("SP", "MK", "PEB")),
    "GeoOpt": ("optimal_quality", ("SP", "PEB")),
    "Cloak": ("cloaking", ("SP",)),
    "Snap": ("snapping", ("SP",)),
}
"""Designs, each with the beliefs that it has a short name with."""
_NO_REMAP = ("LH", "Exp", "PL", "PG", "Snap")
"""Designs that have a short name of their own, without a remap, so that the belief does not matter."""


def _parts(belief: str, **design: Any) -> dict[str, dict[str, Any]]:
    return {"belief": {"kind": belief}, "design": design}


SHORT_LPPMS: dict[str, dict[str, Any]] = {
    **{f"{b}-{d}": _parts(_BELIEF_OF[b], kind=kind) for d, (kind, beliefs) in _DESIGN_OF.items() for b in beliefs},
    **{design: _parts("fixed_profile", kind=_DESIGN_OF[design][0], remap=False) for design in _NO_REMAP},
    "PEB-full-LH": _parts("estimated_profile", kind="location_hiding") | {"learns_from": "cells"},
    "PEB-full-Exp": _parts("estimated_profile", kind="exponential") | {"learns_from": "cells"},
    "Drop": _parts("fixed_profile", kind="dropping"),
    "Dummies": _parts("fixed_profile", kind="dummies"),
    "identity": _parts("fixed_profile", kind="identity"),
}

ShortAttack = Literal[
    "sporadic",
    "markov",
    "sporadic-trained",
    "markov-trained",
    "sporadic-learning",
    "smoothing",
    "smoothing-trained",
    "path",
    "path-trained",
    "markov-learning",
    "home",
]

SHORT_ATTACKS: dict[str, dict[str, Any]] = {
    "sporadic": {"belief": {"kind": "fixed_profile"}, "knows": "test"},
    "markov": {"belief": {"kind": "markov_filter"}, "knows": "test"},
    "sporadic-trained": {"belief": {"kind": "fixed_profile"}, "knows": "training"},
    "markov-trained": {"belief": {"kind": "markov_filter"}, "knows": "training"},
    "sporadic-learning": {"belief": {"kind": "estimated_profile"}, "knows": "training"},
    "smoothing": {"belief": {"kind": "markov_filter"}, "knows": "test", "hindsight": {}},
    "smoothing-trained": {"belief": {"kind": "markov_filter"}, "knows": "training", "hindsight": {}},
    "path": {"belief": {"kind": "markov_filter"}, "knows": "test", "decides": "path", "hindsight": {}},
    "path-trained": {"belief": {"kind": "markov_filter"}, "knows": "training", "decides": "path", "hindsight": {}},
    "markov-learning": {"belief": {"kind": "markov_em"}, "knows": "training"},
    "home": {"belief": {"kind": "home"}, "knows": "training"},
}

ShortIdentification = Literal["identification", "identification-markov"]

SHORT_IDENTIFICATIONS: dict[str, dict[str, Any]] = {
    "identification": {"model": "sporadic"},
    "identification-markov": {"model": "markov"},
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
        if "kind" in default and said.get("kind", default["kind"]) != default["kind"]:
            raise ValueError(
                f"{value['kind']} stands for the {part} {default['kind']}, found {shown(said['kind'])}: "
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
    learns_from: Literal["reports", "cells"] = "reports"
    """What its belief learns from: its reports, which all may see, or the user's real cells, the paper's full type."""

    @property
    def full(self) -> bool:
        """Whether it is of the full type: its reports carry no channel, so that no attack can be optimal."""
        return self.learns_from == "cells"

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

    @model_validator(mode="after")
    def _learns(self) -> Self:
        if self.full and isinstance(self.belief, FixedProfileSpec):
            raise ValueError("`learns_from: cells` is for a belief that learns, found fixed_profile, which never does")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return _short_names_allowed(handler.resolve_ref_schema(handler(core)), "belief", "design")


class HindsightSpec(Spec):
    """Which past queries an adversary estimates once more, in the light of later reports."""

    lags: list[Count] = [1, 5]
    """At each report, the queries so many before it."""
    final: bool = True
    """In the end, all of them from all reports."""

    def guesses(self, queries: int) -> int:
        """Return how many guesses about the past so many queries of a user lead to."""
        within = [lag for lag in set(self.lags) if lag < queries]
        at_reports = sum(queries - lag for lag in within)
        at_last = max(queries - 1, 0) - len(within) if self.final else 0
        return at_reports + at_last


class AttackSpec(Spec):
    """An adversary: a belief about the user with the optimal decision for d_P, unless said."""

    sibling_kinds: ClassVar[tuple[str, ...]] = ("face-value", *SHORT_IDENTIFICATIONS)
    """Kinds of attacks that are models of their own, listed where an unknown kind is refused."""

    kind: ShortAttack | None = None
    name: Name
    """How it is called in logs and figures; its short name unless said."""
    belief: BeliefSpec
    """What she believes about the user."""
    knows: Literal["test", "whole_test", "training"] = "test"
    """Whose statistics: the user's own in force (the worst case), her own of all the test, or the training data's."""
    training: str | None = None
    """Which training set, for one who knows the training; the first one unless said."""
    decides: Literal["optimal", "path"] = "optimal"
    """The estimate: the one of least expected error, or the end of the most likely path (needs a markov_filter)."""
    hindsight: HindsightSpec | None = None
    """Estimate past queries once more, given later reports (needs a markov_filter); never unless said."""
    assumes: DesignSpec | None = None
    """Take channels for what this design makes of her own prior, whatever they are; the real ones unless said."""

    @property
    def needs_channel(self) -> bool:
        """Whether she must know the channel of each report, which mechanisms of the full type keep to themselves."""
        return self.assumes is None

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

    @model_validator(mode="after")
    def _chained(self) -> Self:
        said = "decides: path" if self.decides == "path" else "hindsight" if self.hindsight is not None else None
        if said is not None and not isinstance(self.belief, MarkovFilterSpec):
            raise ValueError(
                f"`{said}` follows the user from report to report, which needs the belief markov_filter, "
                f"found {self.belief.kind!r}"
            )
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return _short_names_allowed(handler.resolve_ref_schema(handler(core)), "belief")


class FaceValueSpec(Spec):
    """An adversary who believes each report: her estimate is the cell that it names. She needs no channel."""

    kind: Literal["face-value"]
    name: Name = "face-value"
    """How it is called in logs and figures."""
    knows: Literal["test", "whole_test", "training"] = "training"
    """Whose profile decides where a report names no cell, or several."""
    training: str | None = None
    """Which training set, for one who knows the training; the first one unless said."""

    @property
    def needs_channel(self) -> bool:
        """Whether she must know the channel of each report."""
        return False

    @property
    def is_memoryless(self) -> bool:
        """Whether her estimate surely follows from the current report alone."""
        return True

    @model_validator(mode="after")
    def _trained(self) -> Self:
        _need_knowledge(self.knows, self.training)
        return self


class IdentificationSpec(Spec):
    """An adversary who tells which of the users is behind a pseudonym, and then where she is (Shokri et al. 2011)."""

    kind: ShortIdentification
    name: Name
    """How it is called in logs and figures; its kind unless said."""
    model: Literal["sporadic", "markov"]
    """How she thinks that people move: by their profiles or by their transitions; as its kind says."""
    matching: Literal["one_to_one", "independent"] = "one_to_one"
    """Whom she names: the most likely assignment of all pseudonyms to users, or the likeliest user of each alone."""
    anywhere: Share = 0.01
    """How much of every user's model is uniform, so that no report rules out anybody for good."""
    knows: Literal["test", "whole_test", "training"] = "test"
    """Whose statistics: each user's own in force (the worst case), her own of all the test, or the training data's."""
    training: str | None = None
    """Which training set, for one who knows the training; the first one unless said."""

    @property
    def needs_channel(self) -> bool:
        """Whether she must know the channel of each report, which mechanisms of the full type keep to themselves."""
        return True

    @property
    def is_memoryless(self) -> bool:
        """Whether her estimate surely follows from the current report alone: all of them tell who it is."""
        return False

    @model_validator(mode="wrap")
    @classmethod
    def _short_name(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        spec = handler(_expand(value, SHORT_IDENTIFICATIONS))
        _forget_filled_in(spec, value)
        return spec

    @model_validator(mode="after")
    def _trained(self) -> Self:
        _need_knowledge(self.knows, self.training)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler.resolve_ref_schema(handler(core))
        return schema | {"required": ["kind"]}


def _need_knowledge(knows: str, training: str | None) -> None:
    if training is not None and knows != "training":
        raise ValueError(
            f"`training` is for an adversary with `knows: training`, found {training!r} with `knows: {knows}`"
        )


class OwnAttack(Custom):
    """One's own attack, imported from `module`."""

    @property
    def needs_channel(self) -> bool:
        """Whether it must know the channel of each report: nobody but its author can tell."""
        return False

    @property
    def is_memoryless(self) -> bool:
        """Whether its estimate surely follows from the current report alone: of one's own classes nothing is sure."""
        return False

    name: Name
    knows: Literal["test", "whole_test", "training"] = "test"
    training: str | None = None

    @model_validator(mode="after")
    def _trained(self) -> Self:
        _need_knowledge(self.knows, self.training)
        return self


def _attack_tag(value: Any) -> str:
    tag = tag_of(value)
    if tag in SHORT_IDENTIFICATIONS:
        return "identification"
    return tag if tag in ("module:Class", "face-value") else "attack"


AnyAttack = Annotated[
    Annotated[AttackSpec, Tag("attack")]
    | Annotated[FaceValueSpec, Tag("face-value")]
    | Annotated[IdentificationSpec, Tag("identification")]
    | Annotated[OwnAttack, Tag("module:Class")],
    Discriminator(_attack_tag),
    short_form,
]
