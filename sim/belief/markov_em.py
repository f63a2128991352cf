"""The Markov belief of somebody who has to learn profile and transitions from the reports: Markov EM."""

from __future__ import annotations

from collections import deque
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from sim.belief.markov_filter import MarkovFilter
from sim.belief.parameters import BeliefParameters
from sim.belief.regularisation import lifted
from sim.components.registry import component
from sim.components.spec import Positive
from sim.inference.baum_welch import baum_welch, forward
from sim.inference.bayes import distribution, read_only
from sim.inference.posterior_mode import posterior_mode
from sim.interfaces import FloatArray
from sim.mobility.statistics import Statistics
from sim.world import World


@component("belief")
class EstimatedMarkovParameters(BeliefParameters):
    """Markov, blank-slate (Markov EM): filters the reports with transitions that Baum-Welch learns from them."""

    kind: Literal["markov_em"] = "markov_em"
    initial: Literal["training", "uniform"] = "training"
    """What is believed before the first report: profile and transitions of the training, or that all is alike."""
    prior_reports: Positive = 1.0
    """How many reports the initial statistics are worth."""
    prior_steps: Positive = 3.0
    """How many steps from each cell it is worth that people go where they are wont to be, wherever they come from."""
    refit_growth: Annotated[float, Field(ge=1.001, le=100)] = 1.1
    """Growth of the number of reports after which the model is fitted again; in between the filter goes on."""
    iterations: Annotated[int, Field(ge=1, le=10_000)] = 5
    """Steps of EM each time, from the same start; many fit the noise."""
    window: Annotated[int, Field(ge=2, le=1_000_000)] = 500
    """Number of last reports that count."""

    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> EstimatedMarkov:  # noqa: ARG002
        """Return the belief, which starts from the training statistics or uniform ones."""
        counted = self.initial == "training" and statistics.n_transitions > 0
        return EstimatedMarkov(
            self,
            initial_profile=statistics.initial_profile(self.initial),
            transition=statistics.transition if counted else None,
            restart_s=restart_s,
        )


class EstimatedMarkov:
    """Follow the user by a hidden Markov filter whose start profile and transitions are learned from her reports.

    The start profile is that of all her cells, as in the paper: the mode of the posterior when the initial profile is
    worth `prior_reports` (in (0, inf)). The transitions are found by `iterations` (in [1, inf)) steps of Baum-Welch,
    with a Dirichlet prior that is worth `prior_steps` (in (0, inf)) steps from each cell. It is centred on the start
    profile just found and, with a share of prior_reports / (prior_reports + reports), on the initial `transition`, if
    any. EM starts at this centre each time: where it begins anew it fits less noise than where it goes on, as a row of
    transitions has few reports to learn from. A thousandth of what is initial is spread over all cells, so that no
    place and no way is ever ruled out.

    The estimate is made anew when the reports that it does not know are `refit_growth` - 1 (above 0) of those that it
    was made from; in between the filter goes on. At most the last `window` (in [2, inf)) reports count. With
    `restart_s` days are apart (see `MarkovFilter`).
    """

    fixed: bool = False

    def __init__(
        self,
        parameters: EstimatedMarkovParameters,
        *,
        initial_profile: ArrayLike,
        transition: ArrayLike | None = None,
        restart_s: int | None = None,
    ) -> None:
        self._profile = read_only(lifted(distribution(initial_profile, "initial_profile")))
        self._initial = self._profile
        self._initial_transition: FloatArray | None = None
        if transition is not None:
            given = distribution(transition, "transition")
            if given.shape != (self._profile.size, self._profile.size):
                raise ValueError(f"transition must have shape {(self._profile.size,) * 2}, got {given.shape}")
            self._initial_transition = read_only(lifted(given))
        self._prior_reports = parameters.prior_reports
        self._prior_steps = parameters.prior_steps
        self._growth = parameters.refit_growth - 1
        self._iterations = parameters.iterations
        self._restart_s = restart_s
        self._rows: deque[FloatArray] = deque(maxlen=parameters.window)
        self._times_s: deque[int] = deque(maxlen=parameters.window)
        self._unseen = 0
        self._fitted = 0
        self._fallbacks = 0
        self._transition = read_only(self._centre())
        self._filter = self._filtering()

    @property
    def start_profile(self) -> FloatArray:
        """Return the profile as estimated last, shape (n_cells,)."""
        return self._profile

    @property
    def transition(self) -> FloatArray:
        """Return the transitions [from, to] as estimated last, shape (n_cells, n_cells)."""
        return self._transition

    @property
    def fallbacks(self) -> int:
        """How many reports the prediction held impossible: there the filter started anew."""
        return self._fallbacks + self._filter.fallbacks

    @property
    def fallback_priors(self) -> tuple[FloatArray, ...]:
        """Return what takes the prior's place for a report that has no mass under it."""
        return self._filter.fallback_priors

    def prior(self, time_s: int) -> FloatArray:
        """Return p(x^r | z^{r-1}) under the last estimate."""
        return self._filter.prior(time_s)

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Return the posterior under the prior before the report, keep it, and estimate anew when it is time to."""
        posterior = self._filter.observe(time_s, likelihood)
        self._rows.append(likelihood / likelihood.max())
        self._times_s.append(time_s)
        self._unseen += 1
        if self._unseen >= self._growth * self._fitted:
            self._refit()
        return posterior

    def _refit(self) -> None:
        rows, times_s = np.array(self._rows), np.array(self._times_s)
        begins = np.ones(len(rows), dtype=np.bool_)
        begins[1:] = False if self._restart_s is None else np.diff(times_s // self._restart_s) != 0
        self._fitted, self._unseen = len(rows), 0
        self._profile = posterior_mode(
            rows, pseudo_counts=self._prior_reports * self._initial, start=self._profile
        ).profile
        centre = self._centre()
        pseudo_counts = self._prior_steps * centre
        transition = baum_welch(
            self._profile, centre, rows, begins, pseudo_counts=pseudo_counts, iterations=self._iterations
        )
        self._transition = read_only(transition)
        self._fallbacks += self._filter.fallbacks
        self._filter = self._filtering()
        posteriors, _ = forward(self._profile, self._transition, rows, begins)
        self._filter.go_on_at(int(times_s[-1]), posteriors[-1])

    def _centre(self) -> FloatArray:
        """Return the transitions to expect before any step was seen: to go where she is wont to be."""
        centre = np.tile(self._profile, (self._profile.size, 1))
        if self._initial_transition is None:
            return centre
        share = self._prior_reports / (self._prior_reports + self._fitted)
        return (1 - share) * centre + share * self._initial_transition

    def _filtering(self) -> MarkovFilter:
        return MarkovFilter(start_profile=self._profile, transition=self._transition, restart_s=self._restart_s)
