"""Identification: which of the users whose statistics are known is behind a pseudonym, and where she is."""

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
    """An adversary who tells which user is behind a pseudonym, and then where they are (Shokri et al. 2011)."""

    kind: Literal["identification", "identification-markov"] = "identification"
    model: Literal["sporadic", "markov"]
    """How people move in the adversary's model: by their profiles or by their transitions; by default as the kind."""
    matching: Literal["one_to_one", "independent"] = "one_to_one"
    """The identities: the most likely assignment of all pseudonyms to users, or the likeliest user of each alone."""
    anywhere: Share = 0.01
    """Share of every user's model that is uniform, so that no report rules out a user for good."""

    @model_validator(mode="wrap")
    @classmethod
    def _short_name(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        parameters = handler(expand(value, SHORT_NAMES))
        unset_expanded(parameters, value)
        return parameters

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler.resolve_ref_schema(handler(core)) | {"required": ["kind"]}

    def build(self, context: AttackContext) -> IdentificationAttack:
        """Return the attack."""
        return IdentificationAttack(
            self,
            candidates={user: context.in_force.get(user, [(1, own)]) for user, own in context.known.items()},
            distance=context.world.privacy_distance,
            restart_s=context.restart_s,
            foresee=context.expected,
            tell=context.posterior,
        )


class IdentificationAttack:
    """Tell who is behind each stream of reports: de-anonymisation and localisation of Shokri et al. 2011 (IEEE S&P).

    What a report is signed with only says which reports belong together. The log-likelihood of the reports so far under
    the model of each candidate is kept for each of these streams. The identity is that of the most likely assignment
    of streams to candidates, `one_to_one`, or the most likely candidate of each stream alone, `independent`.

    Where the user is: the optimal decision for d_P on the posterior over cells, the mean of those under each
    candidate's model weighted by the posterior over candidates (a uniform prior, each stream on its own).

    `candidates` gives the statistics of each, with the first query (from 1) from which on they are in force. A share
    `anywhere` of every model is uniform, so that no report rules out anybody for good. The Markov
    `model` starts anew with `restart_s` (see `MarkovFilter`).
    """

    def __init__(
        self,
        parameters: IdentificationParameters,
        *,
        candidates: Mapping[str, Sequence[tuple[int, Statistics]]],
        distance: Distance,
        restart_s: int | None = None,
        foresee: bool = False,
        tell: bool = False,
    ) -> None:
        if not candidates:
            raise ValueError("candidates must be one or more, got none")
        self._names = list(candidates)
        self._one_to_one = parameters.matching == "one_to_one"
        self._streams: dict[str, Unidentified] = {}
        models = _Models(list(candidates.values()), parameters.anywhere, markov=parameters.model == "markov")
        self._optimal = OptimalAttack(
            belief_of=lambda stream: self._streams.setdefault(stream, Unidentified(models, restart_s)),
            distance=distance,
            foresee=foresee,
            tell=tell,
        )

    @property
    def fallbacks(self) -> int:
        """How often a report had no mass under any candidate."""
        return self._optimal.fallbacks

    def observe(self, report: Report) -> Guess:
        """Take in one report and estimate where the user was, and who she is."""
        guess = self._optimal.observe(report)
        return guess._replace(identity=self._names[self._identity(report.user)])

    def _identity(self, stream: str) -> int:
        own = self._streams[stream].log_likelihoods
        if self._one_to_one:
            from scipy.optimize import linear_sum_assignment  # takes long to import

            rows, columns = linear_sum_assignment(
                [own.log_likelihoods for own in self._streams.values()], maximize=True
            )
            assigned = dict(zip(rows.tolist(), columns.tolist(), strict=True))
            place = list(self._streams).index(stream)
            if place in assigned:
                return int(assigned[place])
        return int(own.argmax())


class Unidentified:
    """The belief about a user who may be any of the candidates, each with a model of her own."""

    fixed: bool = False

    def __init__(self, models: _Models, restart_s: int | None = None) -> None:
        self._models = models
        self._restart_s = restart_s
        self._seen = 0
        self._period = 0
        self._posteriors: FloatArray | None = None
        self._expected: FloatArray | None = None
        self.log_likelihoods: FloatArray = np.zeros(models.n_candidates)
        """Of the reports so far under each candidate's model."""
        self.fallbacks = 0
        """How many reports all candidates held impossible: there all started anew, or the likelihood was believed."""

    @property
    def weights(self) -> FloatArray:
        """Return the posterior over candidates, shape (n_candidates,)."""
        return normalise(np.exp(self.log_likelihoods - self.log_likelihoods.max()))

    @property
    def fallback_priors(self) -> tuple[FloatArray, ...]:
        """Return what takes the prior's place for a report that has no mass under it."""
        return (normalise(self.weights @ self._models.starts(self._seen + 1)),)

    def prior(self, time_s: int) -> FloatArray:
        """Return p(x^r | z^{r-1}), the mean over candidates."""
        return read_only(normalise(self.weights @ self._priors(time_s)))

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Return p(x^r | z^r), and learn who she is."""
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
    """The models of all candidates, which the beliefs about all streams share."""

    def __init__(
        self, candidates: Sequence[Sequence[tuple[int, Statistics]]], anywhere: float, *, markov: bool
    ) -> None:
        self.n_candidates = len(candidates)
        self.markov = markov
        self._anywhere = anywhere
        self._firsts = sorted({first for own in candidates for first, _ in own})
        self._in_force = [
            [own[bisect_right(own, first, key=lambda stretch: stretch[0]) - 1][1] for own in candidates]
            for first in self._firsts
        ]
        self._starts = [
            read_only(self._spread(np.array([statistics.start_profile for statistics in stretch])))
            for stretch in self._in_force
        ]

    def starts(self, index: int) -> FloatArray:
        """Return the (start) profiles in force at a query, shape (n_candidates, n_cells)."""
        return self._starts[self._stretch(index)]

    def predicted(self, index: int, posteriors: FloatArray) -> FloatArray:
        """Move the posteriors of the query before on to this one."""
        transitions = [statistics.transition for statistics in self._in_force[self._stretch(index)]]
        moved = [posterior @ transition for posterior, transition in zip(posteriors, transitions, strict=True)]
        return self._spread(np.array(moved))

    def conditioned(self, index: int, priors: FloatArray, likelihood: FloatArray, masses: FloatArray) -> FloatArray:
        """Return the posteriors; who held the report impossible starts anew, or believes the likelihood alone."""
        joint = priors * likelihood
        lost = masses <= MASS_FLOOR
        joint[lost] = self.starts(index)[lost] * likelihood
        joint[joint.sum(axis=1) <= MASS_FLOOR] = likelihood
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))

    def _stretch(self, index: int) -> int:
        return bisect_right(self._firsts, index) - 1

    def _spread(self, distributions: FloatArray) -> FloatArray:
        """Return the distributions with a share of each anywhere."""
        return np.asarray((1 - self._anywhere) * distributions + self._anywhere / distributions.shape[1])
