"""The blank-slate Markov belief "Markov EM": learn profile and transitions from the reports by Baum-Welch."""

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
    """Markov, blank-slate (Markov EM): filters the reports with transitions learned from them by Baum-Welch."""

    kind: Literal["markov_em"] = "markov_em"
    initial: Literal["training", "uniform"] = "training"
    """Model before the first report: profile and transitions of the training data, or uniform ones."""
    prior_reports: Positive = 1.0
    """Weight of the initial profile and transitions, in reports."""
    prior_steps: Positive = 3.0
    """Weight of the Dirichlet prior on each row of transitions, in transitions. Its mean is the profile, that is, the
    next cell does not depend on the last one."""
    refit_growth: Annotated[float, Field(ge=1.001, le=100)] = 1.1
    """Factor by which the number of reports must grow until the model is fitted again. Between fits the filter uses the
    last model."""
    iterations: Annotated[int, Field(ge=1, le=10_000)] = 5
    """Number of EM iterations per fit. Each fit starts at the prior mean; many iterations overfit."""
    window: Annotated[int, Field(ge=2, le=1_000_000)] = 500
    """Number of latest reports that the model is fitted to."""

    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> EstimatedMarkov:  # noqa: ARG002
        """Return the belief, which starts at the training statistics or uniform ones."""
        counted = self.initial == "training" and statistics.n_transitions > 0
        return EstimatedMarkov(
            self,
            initial_profile=statistics.initial_profile(self.initial),
            transition=statistics.transition if counted else None,
            restart_s=restart_s,
        )


class EstimatedMarkov:
    """Track the user by a hidden Markov filter whose start profile and transitions are learned from the reports.

    The start profile is that of all cells of the user, as in the paper: the mode of its posterior under a Dirichlet
    prior centred on the initial profile with weight `prior_reports` (in (0, inf)). The transitions result from
    `iterations` (in [1, inf)) steps of Baum-Welch under a Dirichlet prior on each row with weight `prior_steps`
    (in (0, inf)). The centre of that prior mixes the initial `transition`, if given, with share
    prior_reports / (prior_reports + reports), and the estimated start profile. EM starts at this centre at each fit:
    a row of transitions has few reports, and EM started at the previous fit would overfit more. A share of 0.001 of
    the initial profile and transitions is spread over all cells, so that no cell and no transition is impossible.

    The model is fitted again when the number of new reports reaches `refit_growth` - 1 (in (0, inf)) times the number
    used by the last fit. Between fits the filter uses the last model. A fit uses at most the last `window`
    (in [2, inf)) reports. With `restart_s` the filter restarts each period, as `MarkovFilter` does.
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
        self._filter = self._new_filter()

    @property
    def start_profile(self) -> FloatArray:
        """The profile of the last fit, shape (n_cells,)."""
        return self._profile

    @property
    def transition(self) -> FloatArray:
        """The transitions [from, to] of the last fit, shape (n_cells, n_cells)."""
        return self._transition

    @property
    def fallbacks(self) -> int:
        """The number of reports without mass under the prediction. The filter restarts at each."""
        return self._fallbacks + self._filter.fallbacks

    @property
    def fallback_priors(self) -> tuple[FloatArray, ...]:
        """The priors to use for a report without mass under the prior, in this order."""
        return self._filter.fallback_priors

    def prior(self, time_s: int) -> FloatArray:
        """Return p(x^r | z^{r-1}) under the last fit."""
        return self._filter.prior(time_s)

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Return the posterior under the prior before the report; store the report and fit again if it is time."""
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
        self._filter = self._new_filter()
        posteriors, _ = forward(self._profile, self._transition, rows, begins)
        self._filter.resume_at(int(times_s[-1]), posteriors[-1])

    def _centre(self) -> FloatArray:
        """Return the centre of the prior on the transitions: the profile in each row, mixed with the initial ones."""
        centre = np.tile(self._profile, (self._profile.size, 1))
        if self._initial_transition is None:
            return centre
        share = self._prior_reports / (self._prior_reports + self._fitted)
        return (1 - share) * centre + share * self._initial_transition

    def _new_filter(self) -> MarkovFilter:
        return MarkovFilter(start_profile=self._profile, transition=self._transition, restart_s=self._restart_s)
