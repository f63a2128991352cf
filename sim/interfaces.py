"""Protocols of the components: mobility, demand, channel, belief, design, LPPM and attack.

A scenario can name any class that implements one of these protocols as ``module:Class``; no base class is needed. Two
rules apply to all components: only `observe` changes state, and never its arguments; all randomness comes from the
`Generator` argument.

Optional attributes are declared in the `...Capabilities` class next to each protocol, with the default for components
without the attribute. The simulator reads them as in ``BeliefCapabilities.fixed.of(belief)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Literal, Protocol, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from sim.events import Guess, Query, Release, Report, Visit

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Generator = np.random.Generator

ComponentT = TypeVar("ComponentT")
ValueT = TypeVar("ValueT")


class Capability(Generic[ComponentT, ValueT]):
    """An optional attribute of a component and its default."""

    __slots__ = ("default", "name")

    def __init__(self, default: ValueT) -> None:
        self.default = default
        self.name = ""

    def __set_name__(self, _owner: type, name: str) -> None:
        self.name = name

    def of(self, component: ComponentT) -> ValueT:
        """Return the component's value, or the default if it has none."""
        value: ValueT = getattr(component, self.name, self.default)
        return value


class Mobility(Protocol):
    """Mobility model: the users and the cells that they visit over time."""

    def users(self, count: int | None) -> Sequence[str]:
        """Return the ids of the first `count` users; with None, of all users."""
        ...

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        """Yield the visits of a user lazily, in order of time. They end only if the attribute `finite` is true."""
        ...


class MobilityCapabilities:
    """Optional attributes of a `Mobility`."""

    finite: Capability[Mobility, bool] = Capability(False)
    """Whether the visits of every user end, as in recorded traces; days are then counted from the first query."""
    timed: Capability[Mobility, bool] = Capability(True)
    """Whether `time_s` of a visit is a time; if not, it is a position in the trace, and durations are rejected."""
    max_gap_s: Capability[Mobility, float | None] = Capability(None)
    """Longest gap between visits, in (0, inf) s, during which the user is assumed to stay in the cell; None: any."""
    elsewhere: Capability[Mobility, Callable[[str, str], Mobility | None] | None] = Capability(None)
    """`elsewhere(what, name)` returns the same users with another `home`, `work` or other `places` (the value of
    `what`), or None if that is not supported; `name` distinguishes several shifts. Without this attribute, shifts
    relocate the cells of the trace."""
    rerouted: Capability[Mobility, Callable[[Callable[[int], Any]], Mobility] | None] = Capability(None)
    """`rerouted(roads_at)` returns the same users on the roads `roads_at(departure_s)`. Without this attribute, shifts
    of roads reroute the cells of the trace."""


class Demand(Protocol):
    """Times of queries."""

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        """Yield the queries in order of time, each with the cell of the user."""
        ...


class DemandCapabilities:
    """Optional attributes of a `Demand`."""

    period_s: Capability[Demand, int] = Capability(0)
    """Time between periodic queries in s; recorded visits are not split at shorter gaps."""


class OutputSpace(Protocol):
    """Meaning of outputs that are not cells. Shipped spaces are in `sim.lppm.outputs`."""

    @property
    def kind(self) -> str:
        """Return the name of the space in the manifest."""
        ...

    @property
    def nothing(self) -> int | None:
        """Return the output that means no report, or None."""
        ...

    def cells(self, output: int) -> tuple[int, ...]:
        """Return the cells that an output reports: one, several or none."""
        ...

    def shown_at(self, output: int) -> int:
        """Return the cell at which a map shows an output, or -1 for none."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the manifest entry, from which `sim.lppm.outputs.read` restores the space."""
        ...


class Channel(Protocol):
    """The obfuscation mechanism in force at one query: f(z | z^{r-1}, x) (Oya et al. 2019, Sect. III)."""

    @property
    def n_outputs(self) -> int:
        """Return the size of the output space Z."""
        ...

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw the output to report from the true cell."""
        ...

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .) for one output, shape (n_cells,)."""
        ...

    def row(self, cell: int) -> FloatArray:
        """Return f(. | x) for one cell, shape (n_outputs,)."""
        ...

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return the possible outputs, shape (k,), and f(z | .) of each, shape (k, n_cells)."""
        ...

    def matrix(self) -> FloatArray:
        """Return f as a matrix [cell, output] whose rows sum to 1, shape (n_cells, n_outputs)."""
        ...


class ChannelCapabilities:
    """Optional attributes of a `Channel`. A channel with a `space` implements `OwnOutputs`."""

    space: Capability[Channel, OutputSpace | None] = Capability(None)
    """Meaning of the outputs; None: they are the cells."""
    countless: Capability[Channel, bool] = Capability(False)
    """Whether the outputs are too many to list: `row`, `likelihoods` and `matrix` then raise an error with a reason."""
    epsilon_per_km: Capability[Channel, float] = Capability(math.inf)
    """Epsilon of geo-indistinguishability of a countless channel, in [0, inf]; infinite: no guarantee."""
    epsilon_in_per_km: Capability[Channel, Callable[[Any], float] | None] = Capability(None)
    """`epsilon_in_per_km(distance)` returns that epsilon per km of a distance; takes precedence over
    `epsilon_per_km`."""
    estimates: Capability[Channel, Callable[[FloatArray, Any], tuple[IntArray, int]] | None] = Capability(None)
    """`estimates(prior, distance)` returns the optimal estimate of the cell for each output, shape (n_outputs,), -1 for
    an output that is impossible or without mass under the prior, and a number that is at least that of the possible
    outputs without mass. Without this attribute, both are computed from `likelihoods`."""

    only_cells: Capability[Channel, Callable[[], IntArray] | None] = Capability(None)
    """`only_cells()` returns, for each output, the only cell in which it is possible, or -1 if there may be others,
    shape (n_outputs,). Estimates of such outputs do not depend on a prior."""
    hidden_state: Capability[Channel, HiddenState | None] = Capability(None)
    """Secret state on which the outputs depend; None: f(z | x) is the whole channel. `likelihood` and `sample` of a
    channel with a hidden state are those of a new secret in every query, as for an adversary who ignores its memory."""
    compact_likelihood: Capability[Channel, Callable[[int], Any] | None] = Capability(None)
    """`compact_likelihood(output)` returns f(z | .) as a `sim.inference.compact_rows.CompactRow`, whose memory does not
    grow with the number of cells, or None."""


class StateTracker(Protocol):
    """Knowledge of an adversary about the hidden state of one user's mechanism, jointly with the user's cell."""

    def likelihood(self, report: Report, prior: FloatArray, link: Any) -> FloatArray:
        """Return p(z^r | x^r, z^{r-1}), the likelihood of an output given the reports so far, shape (n_cells,).

        `prior` is p(x^r | z^{r-1}) of the adversary's belief and `link` its transitions from the last report
        (`sim.inference.transitions.Transitions`), None if cells of consecutive queries are independent. The next call
        is that of `condition`.
        """
        ...

    def condition(self, posterior: FloatArray) -> None:
        """Continue from p(x^r | z^r) of the adversary's belief, shape (n_cells,)."""
        ...


class StateTrackerCapabilities:
    """Optional attributes of a `StateTracker`."""

    dropped: Capability[StateTracker, float] = Capability(0.0)
    """Probability of the states dropped so far, mean over reports, in [0, 1]; 0: tracking drops none."""


class HiddenState(Protocol):
    """Secret state of a mechanism, which is drawn once or changes over time and is never released."""

    @property
    def approximation(self) -> str:
        """Return the approximation that trackers make, as the end of a sentence; empty if they are exact."""
        ...

    def draw(self, secret: Any, channel: Channel, time_s: int, cell: int, rng: Generator) -> tuple[int, Any]:
        """Draw the output of a query, and return it with the new secret; the first secret is None.

        `channel` is the channel in force. Pure but for `rng`: the secret that is passed is not changed.
        """
        ...

    def tracker(self) -> StateTracker:
        """Return a new tracker, for one user and adversary."""
        ...


class HiddenStateCapabilities:
    """Optional attributes of a `HiddenState`."""

    depends_on_user: Capability[HiddenState, bool] = Capability(False)
    """Whether the first secret depends on the user, such as on their home, which the adversary does not know. The
    channel and its trackers then have the distribution that the adversary expects, and `draw` another one."""


class OwnOutputs(Channel, Protocol):
    """A channel whose outputs are not the cells."""

    @property
    def space(self) -> OutputSpace:
        """Return the meaning of the outputs."""
        ...

    @property
    def countless(self) -> bool:
        """Return whether the outputs are too many to list."""
        ...

    def loss_of_km(self, cell: int, output: int) -> float:
        """Return d_Q between the true cell and an output."""
        ...

    def expected_loss_of_km(self, cell: int) -> float:
        """Return the expected loss in a cell, the sum over z of f(z | x) d_Q(x, z)."""
        ...


def has_own_outputs(channel: Channel) -> TypeGuard[OwnOutputs]:
    """Return whether the outputs of a channel are not the cells."""
    return ChannelCapabilities.space.of(channel) is not None


class Belief(Protocol):
    """Knowledge, of a mechanism or an adversary, about the cell of a user's next query."""

    def prior(self, time_s: int) -> FloatArray:
        """Return the distribution over cells at this time, shape (n_cells,). Pure."""
        ...

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Learn from a report by its likelihood f(z | .) and return the posterior, shape (n_cells,)."""
        ...


class BeliefCapabilities:
    """Optional attributes of a `Belief`."""

    link: Capability[Belief, Callable[[int], Any] | None] = Capability(None)
    """`link(time_s)` returns the transitions (`sim.inference.transitions.Transitions`) from the cell of the last report
    to that of a report at this time, or None if the cells are independent. Without this attribute, all are."""
    fixed: Capability[Belief, bool] = Capability(False)
    """Whether `observe` never changes the prior: users with the same statistics then share one mechanism."""
    fallbacks: Capability[Belief, int] = Capability(0)
    """Number of reports so far that had no mass under the prior."""
    fallback_priors: Capability[Belief, Sequence[FloatArray]] = Capability(())
    """Priors that `observe` tries in this order for a report without mass under the prior."""
    alarms: Capability[Belief, int] = Capability(0)
    """Number of changes detected so far."""
    observe_compact: Capability[Belief, Callable[[int, FloatArray, Callable[[], Any]], FloatArray] | None] = Capability(
        None
    )
    """`observe_compact(time_s, likelihood, compact)` does the same as `observe`; `compact()` returns the likelihood in
    the form of `ChannelCapabilities.compact_likelihood`, which takes less memory."""
    worst_gap: Capability[Belief, float | None] = Capability(None)
    """Largest certified gap of an estimate so far, in [0, inf); None: no estimates."""
    solution: Capability[Belief, Callable[[], FloatArray | None] | None] = Capability(None)
    """`solution()` returns the result of the costly computation on which the prior depends, as a vector; None if there
    was none since the last report. Without this attribute, a restarted stream repeats all computations."""
    resume: Capability[Belief, Callable[[FloatArray], None] | None] = Capability(None)
    """`resume(solution)` replaces that computation by its result, bit by bit, before the prior is requested; raises
    `ValueError` for any other vector. Required with `solution`."""


_observe_compact_of = BeliefCapabilities.observe_compact.of


def observe_output(belief: Belief, time_s: int, channel: Channel, output: int) -> FloatArray:
    """Let a belief learn from an output of a channel; return the posterior, shape (n_cells,)."""
    likelihood = channel.likelihood(output)
    observe_compact = _observe_compact_of(belief)
    if observe_compact is None:
        return belief.observe(time_s, likelihood)
    compact = ChannelCapabilities.compact_likelihood.of(channel)
    return observe_compact(time_s, likelihood, lambda: None if compact is None else compact(output))


class Design(Protocol):
    """A pure function from a prior to a channel; with `DesignCapabilities.channel_at` also from time and releases."""

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        ...


class DesignCapabilities:
    """Optional attributes of a `Design`."""

    uses_prior: Capability[Design, bool] = Capability(True)
    """Whether the channel depends on the prior; if not, it is computed once."""
    space: Capability[Design, OutputSpace | None] = Capability(None)
    """The `space` of all channels of the design; None: the outputs are the cells."""
    channel_at: Capability[Design, Callable[[FloatArray, int, Sequence[Release]], Channel] | None] = Capability(None)
    """`channel_at(prior, time_s, releases)` returns the channel of a query at this time after these releases of the
    user, oldest first: f(z^r | z^{r-1}, x^r) of Oya et al. 2019, eq. (online). Pure. Without this attribute, the
    channel depends on the prior alone. With it, calling the design returns the channel of a first query at time 0."""
    releases_used: Capability[Design, float] = Capability(math.inf)
    """Number of latest releases that `channel_at` receives, in [0, inf]; infinite: all."""
    hidden_state: Capability[Design, HiddenState | None] = Capability(None)
    """The `hidden_state` of all channels of the design; None: none."""


def channel_of(design: Design, prior: FloatArray, time_s: int, releases: Sequence[Release]) -> Channel:
    """Return the channel of a design for a query at this time after these releases."""
    channel_at = DesignCapabilities.channel_at.of(design)
    return design(prior) if channel_at is None else channel_at(prior, time_s, releases)


LearnsFrom = Literal["reports", "cells", "disclosed_cells"]
"""Observations that a mechanism learns from: reports; true cells; true cells while the channel is disclosed."""


class LPPM(Protocol):
    """The location privacy-preserving mechanism of one user: a belief and a design, or a custom class."""

    def channel(self, time_s: int) -> Channel:
        """Return the channel in force at this time. Pure."""
        ...

    def observe(self, report: Report) -> None:
        """Learn from a released report."""
        ...


class LPPMCapabilities:
    """Optional attributes of an `LPPM`."""

    belief: Capability[LPPM, Belief | None] = Capability(None)
    """Belief to record in snapshots; None: none."""
    learns_from_cells: Capability[LPPM, bool] = Capability(False)
    """Whether the mechanism learns from true cells instead of its reports."""
    full: Capability[LPPM, bool] = Capability(False)
    """Whether its reports carry no channel, because the channel depends on past true cells."""
    remember: Capability[LPPM, Callable[[Query], None] | None] = Capability(None)
    """`remember(query)` learns from a true cell. Required, and called after `observe`, only if `learns_from_cells`."""
    draw: Capability[LPPM, Callable[[Query, Channel, Generator], int] | None] = Capability(None)
    """`draw(query, channel, rng)` draws the output of a query from the channel in force and its secrets. Without this
    attribute, the output is ``channel.sample(query.cell, rng)``."""
    space: Capability[LPPM, OutputSpace | None] = Capability(None)
    """The `space` of all channels; None: the outputs are the cells."""
    hidden_state: Capability[LPPM, HiddenState | None] = Capability(None)
    """The `hidden_state` of all channels; None: none."""


class Attack(Protocol):
    """Inference procedure of an adversary, who receives only the reports."""

    def observe(self, report: Report) -> Guess:
        """Process one report and estimate the cell of the user."""
        ...


class AttackCapabilities:
    """Optional attributes of an `Attack`."""

    separates_users: Capability[Attack, bool] = Capability(False)
    """Whether every estimate depends only on the reports and statistics of the same user; an attribute of the class.
    The users of a large simulation are then simulated in blocks, each with another instance of the attack."""
    conclude: Capability[Attack, Callable[[], Iterable[Guess]]] = Capability(tuple)
    """`conclude()` is called once after the simulation; yields a guess for the last query of each user, with final
    estimates of earlier queries in `revised`."""
    fallbacks: Capability[Attack, int] = Capability(0)
    """Number of reports so far that had no mass under a belief or the assumed channel."""
    dropped: Capability[Attack, float] = Capability(0.0)
    """Probability of the states of a mechanism's secret that trackers dropped, mean over reports and users, in [0, 1].
    """
