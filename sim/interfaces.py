"""The plug-in points on one page: what a mobility model, a demand, a belief, a design or an attack must do.

Anything that fits one of these protocols can be named in a scenario as ``module:Class``. Two rules hold for
all of them. `observe` alone changes state, and never its inputs. Randomness comes in as a `Generator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sim.events import Guess, Report, Visit

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Generator = np.random.Generator


class Mobility(Protocol):
    """Where people go."""

    def users(self, count: int | None) -> Sequence[str]:
        """Return the ids of the first `count` users, or of all there are."""
        ...

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        """Yield the user's visits in order of time, lazily; synthetic users go on for ever."""
        ...


class Demand(Protocol):
    """When people query the service."""

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        """Yield the moments that become queries, in order of time, each with the cell the user is in."""
        ...


class Channel(Protocol):
    """The obfuscation mechanism in force at one query: f(z | z^{r-1}, x) of the paper."""

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
        """Return the outputs that can come, shape (k,), and f(z | .) of each, shape (k, n_cells)."""
        ...

    def matrix(self) -> FloatArray:
        """Return f as a matrix [cell, output] whose rows sum to 1, shape (n_cells, n_outputs)."""
        ...


class OutputSpace(Protocol):
    """What the outputs of a mechanism stand for, where they are not the cells: `sim.lppm.outputs` has those we know."""

    @property
    def kind(self) -> str:
        """Return its name in the manifest."""
        ...

    @property
    def nothing(self) -> int | None:
        """Return the output that stands for no report at all, if there is one."""
        ...

    def cells(self, output: int) -> tuple[int, ...]:
        """Return the cells that an output names: one, several or none."""
        ...

    def shown_at(self, output: int) -> int:
        """Return the cell at which a map shows an output, -1 for none."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return what the manifest says of it, from which `sim.lppm.outputs.read` makes it again."""
        ...


class OwnOutputs(Channel, Protocol):
    """A channel whose outputs are not the cells: it says what they stand for and what they cost."""

    @property
    def space(self) -> OutputSpace:
        """Return what the outputs stand for."""
        ...

    @property
    def countless(self) -> bool:
        """Return whether there are too many outputs to list: then `row`, `likelihoods` and `matrix` refuse."""
        ...

    def loss_of_km(self, cell: int, output: int) -> float:
        """Return d_Q between the true cell and an output."""
        ...

    def expected_loss_of_km(self, cell: int) -> float:
        """Return the loss to expect in a cell, the sum over z of f(z | x) d_Q(x, z)."""
        ...


class Belief(Protocol):
    """What somebody, mechanism or adversary, believes about where the user is at her next query."""

    def prior(self, time_s: int) -> FloatArray:
        """Return the distribution over cells at this time, shape (n_cells,). Pure."""
        ...

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Learn from a report by its likelihood f(z | .) and return the posterior, shape (n_cells,)."""
        ...


class Design(Protocol):
    """How a mechanism is made from a belief: a pure function from a prior to a channel.

    One whose channels are `OwnOutputs` has a `space` too, the same for all priors, which is theirs.
    """

    def __call__(self, prior: FloatArray) -> Channel:
        """Return the channel for this prior over cells."""
        ...


class LPPM(Protocol):
    """A location privacy-preserving mechanism, as one user carries it."""

    def channel(self, time_s: int) -> Channel:
        """Return the channel in force at this time. Pure."""
        ...

    def observe(self, report: Report) -> None:
        """Learn from what was released, and from nothing else."""
        ...


class Attack(Protocol):
    """An adversary's procedure. It sees reports only."""

    def observe(self, report: Report) -> Guess:
        """Take in one report and estimate where the user was.

        Who wants a last word when everything has been said has `conclude`, which returns an iterable of guesses: one
        for the last query of each user, with the earlier ones in `revised`.
        """
        ...
