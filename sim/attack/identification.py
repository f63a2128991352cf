"""Identification attack: infer the user behind a pseudonym, among users with known statistics, and their cell."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from pydantic import GetJsonSchemaHandler, ModelWrapValidatorHandler, model_validator
from pydantic_core.core_schema import CoreSchema

from sim.attack.optimal import OptimalAttack
from sim.attack.parameters import AttackContext, AttackParameters
from sim.components.registry import component
from sim.components.short_names import Table, expand, unset_expanded
from sim.components.spec import Share
from sim.events import Guess, Report
from sim.inference.bayes import condition, normalise, read_only
from sim.inference.ties import MASS_FLOOR
from sim.interfaces import FloatArray
from sim.mobility.statistics import Statistics
from sim.world.distance import Distance

SHORT_NAMES: Table = {
    "identification": {"model": "sporadic"},
    "identification-markov": {"model": "markov"},
}


@component("attack")
class IdentificationParameters(AttackParameters):
    """An adversary who identifies the user behind a pseudonym and estimates their cell (Shokri et al. 2011)."""

    kind: Literal["identification", "identification-markov"] = "identification"
    model: Literal["sporadic", "markov"]
    """Mobility model of each user: independent draws from the profile (sporadic) or a Markov chain (markov). Default:
    sporadic for the kind identification, markov for identification-markov."""
    matching: Literal["one_to_one", "independent"] = "one_to_one"
    """Identification rule: the most likely one-to-one assignment of all pseudonyms to users, or the most likely user of
    each pseudonym alone (independent)."""
    anywhere: Share = 0.01
    """Weight of the uniform distribution over all cells, mixed into each user's distribution before every report, so
    that no single report excludes a user."""

    @model_validator(mode="wrap")
    @classmethod
    def _short_name(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        parameters = handler(expand(value, SHORT_NAMES))
        unset_expanded(parameters, value)
        return parameters

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler.resolve_ref_schema(handler(core)) | {"required": ["kind"]}

    @property
    def needs_everybody(self) -> bool:
        """Whether an estimate may depend on other users: all are candidates."""
        return True

    def build(self, context: AttackContext) -> IdentificationAttack:
        """Return the attack."""
        return IdentificationAttack(
            self,
            candidates={
                user: context.in_force.get(user, [(1, statistics)]) for user, statistics in context.known.items()
            },
            distance=context.world.privacy_distance,
            restart_s=context.restart_s,
            all_outputs=context.expected,
            with_posterior=context.posterior,
        )


class IdentificationAttack:
    """Identify the user behind each stream of reports: de-anonymisation and localisation of Shokri et al. 2011.

    A stream is the reports under one pseudonym. For each stream the attack accumulates the log-likelihood of its
    reports under the model of each candidate. The identity is given by the most likely assignment of streams to
    candidates (`one_to_one`), or is the most likely candidate of each stream alone (`independent`).

    The estimated cell is the optimal decision for d_P under the mean of the candidates' posteriors over cells, weighted
    by the posterior over candidates (with a uniform prior, separately for each stream).

    `candidates` maps each user to pairs of the index, from 1, of a first query and the statistics in force from it on.
    A share `anywhere` (in [0, 1]) of every model is uniform over the cells, so that no single report excludes a
    candidate. The Markov `model` restarts each period of `restart_s` seconds, as `MarkovFilter` does. `all_outputs` and
    `with_posterior` are as in `OptimalAttack`.

    References: Shokri, Theodorakopoulos, Le Boudec, Hubaux, *Quantifying Location Privacy*, IEEE S&P 2011.
    """

    def __init__(
        self,
        parameters: IdentificationParameters,
        *,
        candidates: Mapping[str, Sequence[tuple[int, Statistics]]],
        distance: Distance,
        restart_s: int | None = None,
        all_outputs: bool = False,
        with_posterior: bool = False,
    ) -> None:
        if not candidates:
            raise ValueError("candidates must have at least one element, got 0")
        self._names = list(candidates)
        self._one_to_one = parameters.matching == "one_to_one"
        self._streams: dict[str, Unidentified] = {}
        self._models = _Models(list(candidates.values()), parameters.anywhere, markov=parameters.model == "markov")
        self._restart_s = restart_s
        self._optimal = OptimalAttack(
            belief_of=self._stream,
            distance=distance,
            all_outputs=all_outputs,
            with_posterior=with_posterior,
            ignores_memory=True,
        )

    @property
    def fallbacks(self) -> int:
        """The number of reports without mass under any candidate."""
        return self._optimal.fallbacks

    def observe(self, report: Report) -> Guess:
        """Process one report; estimate the cell and the identity of the user."""
        guess = self._optimal.observe(report)
        return guess._replace(identity=self._names[self._identity(report.user)])

    def _stream(self, stream: str) -> Unidentified:
        """Return the belief about a new stream."""
        belief = self._streams[stream] = Unidentified(self._models, self._restart_s)
        return belief

    def _identity(self, stream: str) -> int:
        if self._one_to_one:
            from scipy.optimize import linear_sum_assignment  # slow to import

            log_likelihoods = [belief.log_likelihoods for belief in self._streams.values()]
            rows, columns = linear_sum_assignment(log_likelihoods, maximize=True)
            assigned = dict(zip(rows.tolist(), columns.tolist(), strict=True))
            row = list(self._streams).index(stream)
            if row in assigned:
                return int(assigned[row])
        return int(self._streams[stream].log_likelihoods.argmax())


class Unidentified:
    """The belief about a user who may be any of the candidates, each with a separate model."""

    fixed: bool = False

    def __init__(self, models: _Models, restart_s: int | None = None) -> None:
        self._models = models
        self._restart_s = restart_s
        self._seen = 0
        self._period = 0
        self._posteriors: FloatArray | None = None
        self._expected: FloatArray | None = None
        self.log_likelihoods: FloatArray = np.zeros(models.n_candidates)
        """Log-likelihood of the reports so far under each candidate's model, shape (n_candidates,)."""
        self.fallbacks = 0
        """Number of reports without mass under any candidate. The posterior then uses the start profiles or, without
        mass under these too, the likelihood alone."""

    @property
    def weights(self) -> FloatArray:
        """The posterior over candidates, shape (n_candidates,)."""
        return normalise(np.exp(self.log_likelihoods - self.log_likelihoods.max()))

    @property
    def fallback_priors(self) -> tuple[FloatArray, ...]:
        """The priors to use for a report without mass under the prior, in this order."""
        return (normalise(self.weights @ self._models.starts(self._seen + 1)),)

    def prior(self, time_s: int) -> FloatArray:
        """Return p(x^r | z^{r-1}), the mean over candidates."""
        return read_only(normalise(self.weights @ self._priors(time_s)))

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Return p(x^r | z^r) and update the posterior over candidates."""
        priors = self._priors(time_s)
        posterior, mass = condition(self.prior(time_s), likelihood)
        if not mass > 0:
            posterior, mass = condition(self.fallback_priors[0], likelihood)
            if not mass > 0:
                posterior = normalise(likelihood)
            self.fallbacks += 1
        masses = priors @ likelihood
        self.log_likelihoods = self.log_likelihoods + np.log(np.maximum(masses, MASS_FLOOR))
        if self._models.markov:
            self._posteriors = self._models.conditioned(self._seen + 1, priors, likelihood, masses)
        self._expected = None
        self._seen += 1
        self._period = self._period_of(time_s)
        return posterior

    def _priors(self, time_s: int) -> FloatArray:
        """Return p(x^r | z^{r-1}) under each candidate's model, shape (n_candidates, n_cells)."""
        if self._posteriors is None or self._period != self._period_of(time_s):
            return self._models.starts(self._seen + 1)
        if self._expected is None:
            self._expected = self._models.predicted(self._seen + 1, self._posteriors)
        return self._expected

    def _period_of(self, time_s: int) -> int:
        return 0 if self._restart_s is None else time_s // self._restart_s


class _Models:
    """The models of all candidates, shared by the beliefs about all streams."""

    def __init__(
        self, candidates: Sequence[Sequence[tuple[int, Statistics]]], anywhere: float, *, markov: bool
    ) -> None:
        self.n_candidates = len(candidates)
        self.markov = markov
        self._anywhere = anywhere
        self._firsts = sorted({first for periods in candidates for first, _ in periods})
        self._in_force = [
            [periods[bisect_right(periods, first, key=lambda period: period[0]) - 1][1] for periods in candidates]
            for first in self._firsts
        ]
        self._starts = [
            read_only(self._spread(np.array([statistics.start_profile for statistics in in_force])))
            for in_force in self._in_force
        ]

    def starts(self, index: int) -> FloatArray:
        """Return the start profiles in force at a query, shape (n_candidates, n_cells)."""
        return self._starts[self._period(index)]

    def predicted(self, index: int, posteriors: FloatArray) -> FloatArray:
        """Predict the cells at a query from the posteriors of the query before it."""
        transitions = [statistics.transitions for statistics in self._in_force[self._period(index)]]
        moved = [transition.forward(posterior) for posterior, transition in zip(posteriors, transitions, strict=True)]
        return self._spread(np.array(moved))

    def conditioned(self, index: int, priors: FloatArray, likelihood: FloatArray, masses: FloatArray) -> FloatArray:
        """Return the posteriors.

        A candidate under whom the report has no mass restarts at the start profile or, without mass there too, uses the
        likelihood alone.
        """
        joint = priors * likelihood
        without_mass = masses <= MASS_FLOOR
        joint[without_mass] = self.starts(index)[without_mass] * likelihood
        joint[joint.sum(axis=1) <= MASS_FLOOR] = likelihood
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))

    def _period(self, index: int) -> int:
        return bisect_right(self._firsts, index) - 1

    def _spread(self, distributions: FloatArray) -> FloatArray:
        """Return the distributions with a share of each spread evenly over all cells."""
        return np.asarray((1 - self._anywhere) * distributions + self._anywhere / distributions.shape[1])
