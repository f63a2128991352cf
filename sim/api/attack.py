"""Attacks in Python: the same objects as in a simulation, to be used alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, cast

from numpy.typing import ArrayLike
from pydantic import PrivateAttr

from sim.api.lppm import Mechanism
from sim.api.parameters import (
    assign_keywords,
    custom_component,
    field_names,
    is_description,
    mapping_of,
    plain,
    validated,
)
from sim.api.statistics import statistics_of
from sim.attack.bayesian import SHORT_NAMES, BayesianParameters, attack_tag
from sim.attack.parameters import AttackContext, AttackParameters, StatisticsOf
from sim.belief.parameters import BeliefParameters
from sim.components.registry import as_mapping, registry, tag_of
from sim.errors import InputError, input_errors
from sim.interfaces import Attack, Belief
from sim.mobility.statistics import Statistics
from sim.world import World

ORIGIN = "make_attack"


def make_attack(
    kind: str | Mapping[str, Any] | AttackParameters | Attack | type[Any] | None = None,
    *,
    world: World,
    statistics: Statistics | ArrayLike | Mapping[str, Statistics] | None = None,
    lppm: Mechanism | None = None,
    belief: str | Mapping[str, Any] | BeliefParameters | Belief | type[Any] | None = None,
    restart_s: int | None = None,
    posterior: bool = True,
    expected: bool = False,
    **parameters: Any,
) -> Attack:
    """Make an attack.

    Parameters
    ----------
    kind
        Short name, such as ``"markov"`` (``sim.list_components("attack")`` lists them), a mapping as under `attacks`
        in a scenario file, a custom class, constructed with `world` and `statistics_of`, an object with a method
        `observe`, or None with a `belief`.
    world
        World, from `sim.make_world` or ``scenario.build_world()``.
    statistics
        Statistics that the adversary knows of the users: `Statistics` from `sim.make_statistics` or a histogram of
        shape (n_cells,), for every user the same, or a mapping from user names to `Statistics`. Default: no data,
        uniform.
    lppm
        The attacked mechanism. Needed only if its outputs are not cells.
    belief
        Belief in place of, or with parameters for, that of `kind`: a kind, a mapping, a parameter object, a custom
        class, constructed with `statistics` and `restart_s`, or an object with the methods of `sim.Belief`, of which
        every user gets a copy.
    restart_s
        Period, in s, after which Markov models restart: 86400 for days. Default: never.
    posterior
        Whether guesses carry the posterior over cells.
    expected
        Whether guesses carry the estimates for all outputs, `estimate_by_output`; slower.
    **parameters
        Parameters of the attack and of its belief; ``sim.list_parameters`` lists them.

    Returns
    -------
    Attack
        ``observe(report)`` returns a `Guess` with `estimate` and `posterior`. It keeps a state for each user.

    Raises
    ------
    ScenarioError
        If a name or a value is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> import sim
    >>> world = sim.make_world("rectangle", rows=3, cols=3, width_km=3, height_km=3)
    >>> known = sim.make_statistics([4, 4, 4, 5], world=world)
    >>> mechanism = sim.make_lppm("SP-LH", world=world, training=known, reveal_probability=0.2, remap=False)
    >>> attack = sim.make_attack("sporadic", world=world, statistics=known)
    >>> guess = attack.observe(mechanism.report(4, 0, np.random.default_rng(1)))
    >>> guess.estimate, guess.posterior.shape
    (4, (9,))
    """
    known = _known(statistics, world)
    if not is_description(kind):
        return cast(
            Attack, custom_component(kind, "attack", world=world, statistics_of=StatisticsOf(known), **parameters)
        )
    keys = _keys(kind, belief, parameters)
    models = registry.kinds("attack")
    checked = validated(models.get(attack_tag(keys) or "", BayesianParameters), keys, ORIGIN)
    assert isinstance(checked, AttackParameters)
    if belief is not None and not is_description(belief):
        checked = checked.model_copy(update={"belief": _CustomBelief.of(belief)})
    context = AttackContext(
        world=world,
        known=known,
        space=None if lppm is None else lppm.output_space,
        restart_s=restart_s,
        expected=expected,
        posterior=posterior,
    )
    with input_errors(ORIGIN):
        return checked.build(context)


def _keys(kind: Any, belief: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of an attack as in a scenario file, with keywords assigned to the attack or to its belief."""
    keys = {} if kind is None else mapping_of(kind)
    is_named = keys.get("kind") in SHORT_NAMES
    if belief is not None:
        keys["belief"] = plain(belief) if is_description(belief) else as_mapping(keys.get("belief", "fixed_profile"))
        if is_named and not is_description(belief):
            del keys["belief"]
    default = SHORT_NAMES.get(str(keys.get("kind")), {}).get("belief", {})
    attack = registry.kinds("attack").get(attack_tag(keys) or "", BayesianParameters)
    own_belief = registry.kinds("belief").get(tag_of(default | as_mapping(keys.get("belief", {}))) or "")
    fields = {"attack": field_names(attack)}
    if own_belief is not None and "belief" in attack.model_fields:
        fields["belief"] = field_names(own_belief)
    assigned = assign_keywords(ORIGIN, parameters, fields)
    if assigned.get("belief"):
        keys["belief"] = as_mapping(keys.get("belief", {})) | assigned["belief"]
    keys |= assigned["attack"]
    if "kind" not in keys or keys["kind"] not in registry.kinds("attack"):
        keys.setdefault("name", "attack")
    return keys


class _CustomBelief(BeliefParameters):
    """Stands for a custom belief, given as an object or a class."""

    kind: str = "custom"
    _make: Callable[[Statistics, int | None], Belief] = PrivateAttr()

    @classmethod
    def of(cls, belief: Any) -> _CustomBelief:
        """Return parameters that build this belief for every user."""

        def make(statistics: Statistics, restart_s: int | None) -> Belief:
            made = belief if isinstance(belief, type) else deepcopy(belief)
            return cast(Belief, custom_component(made, "belief", statistics=statistics, restart_s=restart_s))

        parameters = cls()
        parameters._make = make
        return parameters

    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> Belief:  # noqa: ARG002
        """Return the belief about one user."""
        return self._make(statistics, restart_s)


def _known(statistics: Any, world: World) -> Mapping[str, Statistics]:
    if isinstance(statistics, Mapping):
        return {user: statistics_of(own, world, f"statistics[{user!r}]") for user, own in statistics.items()}
    return _Everybody(statistics_of(statistics, world, "statistics"))


class _Everybody(Mapping[str, Statistics]):
    """The same statistics for whatever user is asked for."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics

    def __getitem__(self, user: str) -> Statistics:
        return self._statistics

    def __contains__(self, user: object) -> bool:
        return isinstance(user, str)

    def __iter__(self) -> Iterator[str]:
        raise InputError(
            "this attack compares the statistics of several users: pass `statistics` as a mapping from user names",
            code="statistics-by-user",
        )

    def __len__(self) -> int:
        return 1
