"""Bayesian attacks: parameters that compose a belief, a decision rule and hindsight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self, cast

from pydantic import GetJsonSchemaHandler, ModelWrapValidatorHandler, model_validator
from pydantic_core.core_schema import CoreSchema

from sim.attack.assumed import AssumingAttack
from sim.attack.hindsight import Hindsight, PathAttack, SmoothingAttack
from sim.attack.optimal import OptimalAttack
from sim.attack.parameters import AttackContext, AttackParameters, Memory
from sim.belief.in_force import InForce
from sim.belief.parameters import BeliefParameters
from sim.components.registry import OneOf, component, registry
from sim.components.short_names import Table, allow_short_names, expand, unset_expanded
from sim.errors import InvalidValue, input_errors
from sim.interfaces import Attack, Belief
from sim.lppm.outputs import output_space
from sim.lppm.parameters import DesignParameters

ShortName = Literal[
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

SHORT_NAMES: Table = {
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


@component("attack")
class BayesianParameters(AttackParameters):
    """A Bayesian adversary: a belief about the user and a decision rule, by default the optimal one for d_P."""

    kind: ShortName | None = None  # type: ignore[assignment]
    belief: Annotated[BeliefParameters, OneOf("belief")]
    """Belief of the adversary about the user: prior and learning rule."""
    decides: Literal["optimal", "path"] = "optimal"
    """Decision rule. optimal: the cell with the least expected error; path: the last cell of the most likely path
    (requires the belief markov_filter)."""
    hindsight: Hindsight | None = None
    """Revision of estimates of past queries after later reports (requires the belief markov_filter). Default: none."""
    assumes: Annotated[DesignParameters, OneOf("design")] | None = None
    """Mechanism that the adversary assumes: channels are computed by this design from the adversary's prior. Default:
    the adversary knows the true channels."""

    ignores_memory: bool = False
    """Whether the adversary takes each report of a mechanism with a secret, such as a constant offset, as one with a
    new secret. Default: the adversary tracks the secret together with the cell."""

    @classmethod
    def sibling_kinds(cls) -> tuple[str, ...]:
        """Return the kinds of the other attacks, which the message for an unknown kind lists."""
        return tuple(kind for kind, model in registry.kinds("attack").items() if model is not cls and ":" not in kind)

    @property
    def needs_channel(self) -> bool:
        """Whether the attack requires the channel of each report, which mechanisms of the full type do not release."""
        return self.assumes is None

    @property
    def memory(self) -> Memory:
        """How the attack treats the secret of a mechanism with hidden state."""
        if self.ignores_memory:
            return "ignored"
        if self.decides == "path" or self.hindsight is not None:
            return "unsupported"
        return "tracked" if self.belief.hardwired else "approximated"

    @property
    def is_memoryless(self) -> bool:
        """Whether the estimate depends on the current report alone."""
        return self.belief.memoryless

    @property
    def has_prior(self) -> bool:
        """Whether the attack holds a belief about the user."""
        return True

    @model_validator(mode="wrap")
    @classmethod
    def _short_name(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        parameters = handler(expand(value, SHORT_NAMES))
        unset_expanded(parameters, value)
        return parameters

    @model_validator(mode="after")
    def _chained(self) -> Self:
        key = "decides: path" if self.decides == "path" else "hindsight" if self.hindsight is not None else None
        if key is not None and not self.belief.chained:
            raise InvalidValue(
                f"`{key}` requires the belief markov_filter, found {self.belief.kind!r}", code="unsupported-belief"
            )
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return allow_short_names(handler.resolve_ref_schema(handler(core)), "belief")

    def build(self, context: AttackContext) -> Attack:
        """Return the attack."""
        belief_of = BeliefOf(self.belief, context)
        if self.assumes is None:
            return self._inference(belief_of, context)
        attack = self._inference(belief_of, context)
        with input_errors(f"attacks.{self.name}.assumes"):
            design = self.assumes.build(context.world)
        return AssumingAttack(
            attack=attack,
            belief_of=belief_of,
            design=design,
            readable=output_space(design, context.world.n_cells) == context.outputs,
        )

    def _inference(self, belief_of: Callable[[str], Belief], context: AttackContext) -> Attack:
        records: dict[str, Any] = {
            "all_outputs": context.expected,
            "with_posterior": context.posterior,
            "ignores_memory": self.ignores_memory,
        }
        if self.decides == "optimal" and self.hindsight is None:
            return OptimalAttack(belief_of=belief_of, distance=context.world.privacy_distance, **records)
        hindsight = self.hindsight or Hindsight(lags=[], final=False)
        chained = cast(Any, belief_of)
        if self.decides == "path":
            return PathAttack(hindsight, belief_of=chained, **records)
        return SmoothingAttack(hindsight, belief_of=chained, distance=context.world.privacy_distance, **records)


def attack_tag(value: Any) -> str | None:
    """Return the tag of an attack; one without a kind or with an unknown one counts as Bayesian."""
    kind = value.get("kind") if isinstance(value, dict) else value.kind if isinstance(value, AttackParameters) else None
    models = registry.kinds("attack")
    if isinstance(kind, str) and ":" in kind:
        return "module:Class"
    model = models.get(kind, BayesianParameters) if isinstance(kind, str) else BayesianParameters
    return model.kinds()[0]


class BeliefOf:
    """A function from user to the belief about the user, the same at each call; it can be saved in a checkpoint.

    A hardwired belief uses the statistics in force.
    """

    def __init__(self, parameters: BeliefParameters, context: AttackContext) -> None:
        self._parameters, self._context = parameters, context
        self._made: dict[str, Belief] = {}

    def __call__(self, user: str) -> Belief:
        """Return the belief about a user."""
        if user not in self._made:
            self._made[user] = self._make(user)
        return self._made[user]

    def _make(self, user: str) -> Belief:
        build, context = self._parameters.build, self._context
        if not self._parameters.hardwired or user not in context.in_force:
            return build(context.known[user], context.restart_s, context.world)
        beliefs = [
            (first, build(statistics, context.restart_s, context.world)) for first, statistics in context.in_force[user]
        ]
        return InForce(cast(Any, beliefs))


AnyAttack = Annotated[AttackParameters, OneOf("attack", attack_tag)]
