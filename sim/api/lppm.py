"""Mechanisms in Python: the same objects as in a simulation, to be used alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

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
from sim.belief.parameters import BeliefParameters
from sim.components.registry import as_mapping, registry, tag_of
from sim.errors import InputError, input_errors
from sim.events import Query, Report
from sim.interfaces import Belief, Design, Generator, LearnsFrom
from sim.lppm.mechanism import Mechanism as BaseMechanism
from sim.lppm.outputs import output_space
from sim.lppm.parameters import DesignParameters
from sim.lppm.theory import Theory, theory
from sim.mobility.statistics import Statistics
from sim.scenario.lppms import LPPMSpec, short_names
from sim.world import World

ORIGIN = "make_lppm"


class Mechanism(BaseMechanism):
    """The mechanism of one user, as `sim.make_lppm` makes it.

    Attributes
    ----------
    belief
        Belief about the user's next cell; ``belief.prior(time_s)`` is the current prior.
    design
        Function from a prior to a channel.
    full
        Whether its reports carry no channel, because it learns from true cells.
    world
        World that its cells belong to.
    user
        Name of the user in its reports.
    """

    def __init__(
        self, *, belief: Belief, design: Design, world: World, learns_from: LearnsFrom = "reports", user: str = "user"
    ) -> None:
        super().__init__(belief=belief, design=design, learns_from=learns_from)
        self.world = world
        self.user = user
        self.queries = 0
        """Number of reports made so far."""
        self.output_space = output_space(design, world.n_cells)
        """Meaning of the outputs, which need not be cells: ``output_space.cells(output)``."""

    def __repr__(self) -> str:
        belief, design = type(self.belief).__name__, type(self.design).__name__
        return f"<Mechanism of {self.user!r}: belief {belief}, design {design}, {self.queries} reports so far>"

    def report(self, cell: int, time_s: int, rng: Generator) -> Report:
        """Draw the report of one query, and learn from it.

        Parameters
        ----------
        cell
            True cell of the user, in [0, n_cells).
        time_s
            Time of the query in s; must not decrease from one query to the next.
        rng
            Source of randomness.

        Returns
        -------
        Report
            Output and the channel that produced it (None if `full`), as an adversary sees them.

        Examples
        --------
        >>> import numpy as np
        >>> import sim
        >>> world = sim.make_world("rectangle", rows=3, cols=3, width_km=3, height_km=3)
        >>> mechanism = sim.make_lppm("PEB-Exp", world=world, epsilon_per_km=1.0)
        >>> report = mechanism.report(4, 0, np.random.default_rng(1))
        >>> report.index, 0 <= report.output < 9
        (1, True)
        """
        if not 0 <= cell < self.world.n_cells:
            raise ValueError(f"cell must be in [0, {self.world.n_cells}), got {cell}")
        query = Query(self.user, self.queries + 1, int(time_s), int(cell))
        channel = self.channel(query.time_s)
        output = channel.sample(query.cell, rng) if self.draw is None else self.draw(query, channel, rng)
        self.queries = query.index
        report = Report(self.user, query.index, query.time_s, output, None if self.full else channel)
        self.observe(report)
        if self.learns_from_cells:
            self.remember(query)
        return report

    def expected_metrics(self, time_s: int = 0, *, prior: ArrayLike | None = None, epsilon: bool = False) -> Theory:
        """Return the metrics of the current channel, expected under a prior.

        Parameters
        ----------
        time_s
            Time of the next query in s.
        prior
            Distribution of the true cell, as a histogram of shape (n_cells,). Default: the mechanism's own prior.
        epsilon
            Whether to compute the exact epsilon of geo-indistinguishability per km of the Euclidean distance; slow.

        Returns
        -------
        Theory
            Expected quality loss and error of the optimal estimate in km, conditional entropy in bits, worst-case
            loss in km, epsilon per km; None where a value is not computed.

        Examples
        --------
        >>> import sim
        >>> world = sim.make_world("rectangle", rows=3, cols=3, width_km=3, height_km=3)
        >>> mechanism = sim.make_lppm("SP-LH", world=world, reveal_probability=1.0)
        >>> mechanism.expected_metrics().quality_loss_km
        0.0
        """
        own = self.belief.prior(time_s) if prior is None else statistics_of(prior, self.world, "prior").profile
        return theory(
            self.channel(time_s),
            own,
            quality=self.world.quality_distance,
            privacy=self.world.privacy_distance,
            epsilon_in=self.world.euclidean_distance if epsilon else None,
        )


def make_lppm(
    kind: str | Mapping[str, Any] | LPPMSpec | None = None,
    *,
    world: World,
    training: Statistics | ArrayLike | None = None,
    belief: str | Mapping[str, Any] | BeliefParameters | Belief | type[Any] | None = None,
    design: str | Mapping[str, Any] | DesignParameters | Design | type[Any] | None = None,
    learns_from: LearnsFrom | None = None,
    restart_s: int | None = None,
    user: str = "user",
    **parameters: Any,
) -> Mechanism:
    """Make the mechanism of one user.

    Parameters
    ----------
    kind
        Short name, such as ``"PEB-Exp"`` (``sim.list_components("lppm")`` lists them), a mapping as under `lppms` in a
        scenario file, or None with a `belief` and a `design`.
    world
        World, from `sim.make_world` or ``scenario.build_world()``.
    training
        What the mechanism is trained on: `Statistics` from `sim.make_statistics`, or a histogram of shape (n_cells,).
        Default: no data, a uniform profile.
    belief
        Belief about the user: a kind, a mapping or a parameter object, or only parameters for the belief of `kind`. A
        custom belief is an object with the methods of `sim.Belief`, or a class, which is constructed with `statistics`
        and `restart_s`.
    design
        Design of the channel, given in the same ways. A custom design is a function from a prior to a channel
        (`sim.Design`), or a class, which is constructed with `world`.
    learns_from
        ``"reports"`` (default), ``"cells"`` for the full type of the paper, or ``"disclosed_cells"`` for a ceiling.
    restart_s
        Period, in s, after which Markov models restart: 86400 for days. Default: never.
    user
        Name of the user in the reports.
    **parameters
        Parameters of the belief and of the design, such as ``epsilon_per_km=1.0``; ``sim.list_parameters`` lists them.
        A custom class receives those that the other component does not have.

    Returns
    -------
    Mechanism
        ``report(cell, time_s, rng)`` draws a report, ``channel(time_s).matrix()`` is the mechanism in force.

    Raises
    ------
    ScenarioError
        If a name or a value is invalid.

    Examples
    --------
    >>> import sim
    >>> world = sim.make_world("rectangle", rows=3, cols=3, width_km=3, height_km=3)
    >>> mechanism = sim.make_lppm("SP-Exp", world=world, epsilon_per_km=1.0)
    >>> mechanism.channel(0).matrix().shape
    (9, 9)
    >>> sim.make_lppm("SP-Exp", world=world, epsilon=1.0) # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    sim.scenario.reading.faults.ScenarioError: make_lppm: epsilon: unknown key (did you mean 'epsilon_per_km'?); ...
    """
    keys = {"name": "lppm"} if kind is None else mapping_of(kind)
    parts = {"belief": belief, "design": design}
    custom = {part: value for part, value in parts.items() if not is_description(value)}
    for part, value in parts.items():
        if value is not None and part not in custom:
            keys[part] = plain(value)
    if learns_from is not None:
        keys["learns_from"] = learns_from
    custom_class = next((part for part, value in custom.items() if isinstance(value, type)), None)
    fields = {part: _parameter_names(keys, part) for part in parts if part not in custom}
    is_known = all(names is not None for names in fields.values())  # else validation reports the unknown kind
    known_fields = {part: names for part, names in fields.items() if names is not None}
    assigned = assign_keywords(ORIGIN, parameters, known_fields, custom_class) if is_known else {}
    for part in known_fields:
        if assigned.get(part):
            keys[part] = as_mapping(keys.get(part, {})) | assigned[part]
    if "kind" not in keys:
        keys |= {part: _PLACEHOLDERS[part] for part in custom}
    spec = validated(LPPMSpec, keys, ORIGIN)
    return _built(spec, custom, assigned, world, statistics_of(training, world, "training"), restart_s, user)


_PLACEHOLDERS: dict[str, Any] = {"belief": "estimated_profile", "design": "exponential"}
"""Valid parameters in the place of custom objects, so that all other parameters are validated."""


def _built(
    spec: LPPMSpec,
    custom: Mapping[str, Any],
    assigned: Mapping[str, Any],
    world: World,
    statistics: Statistics,
    restart_s: int | None,
    user: str,
) -> Mechanism:
    """Build the belief and the design, and the mechanism of both."""
    if spec.lppm is not None:
        raise InputError(
            f"{ORIGIN} composes a belief and a design, got the complete mechanism {spec.lppm.kind}: construct it "
            "with `world` and `statistics`, or name it in the `lppms` of a scenario",
            code="complete-mechanism",
        )
    given: dict[str, dict[str, Any]] = {
        "belief": {"statistics": statistics, "restart_s": restart_s},
        "design": {"world": world},
    }
    made: dict[str, Any] = {
        part: custom_component(value, part, **given[part], **assigned.get(part, {})) for part, value in custom.items()
    }
    with input_errors(ORIGIN):
        if "design" not in made:
            made["design"] = spec.design.build(world)
        if "belief" not in made:
            made["belief"] = spec.belief.build(statistics, restart_s, world)
    return Mechanism(**made, world=world, learns_from=spec.learns_from, user=user)


def _parameter_names(keys: Mapping[str, Any], part: str) -> list[str] | None:
    """Return the parameters of the belief or design that the keys describe; None if its kind is unknown."""
    default = short_names().get(str(keys.get("kind")), {}).get(part, {})
    component = default | as_mapping(keys.get(part, {}))
    model = registry.kinds(part).get(tag_of(component) or "")
    return None if model is None else field_names(model)
