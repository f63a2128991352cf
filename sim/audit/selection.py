"""Choice between the hypotheses: cross-validated likelihood, intervals, and a test of the best against the pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.spatial import cKDTree
from scipy.stats import ks_2samp, kstest

from sim.audit.deterministic import fit_identity, fit_regions, fit_snapping
from sim.audit.displacement import Sample
from sim.audit.families import FAMILIES, Family
from sim.audit.grid_exponential import GridExponentialFit, fit_grid_exponential, with_interval
from sim.audit.hypothesis import Estimate, Fit
from sim.audit.lattice import Lattice, find_lattice
from sim.audit.memory import fit_memory
from sim.audit.mixture import MixtureFit, fit_fixed_place, fit_hiding, fit_noise_mixture, own_place
from sim.audit.noise import NoiseFit, fit_noise
from sim.audit.offset import LEAST_WHITE_M, OffsetFit, fit_offset, with_intervals
from sim.audit.zone import Presence, fit_dropping, fit_moved_zone
from sim.interfaces import FloatArray, IntArray
from sim.rng import stream

_FOLDS = 4
_MOST_COMPARED = 6
_FEWEST_USERS = 8
_CERTAIN_NATS = 0.25
"""Mean loss in log-likelihood per report below which a deterministic mechanism needs no further comparison."""
_OUTLIERS = 1e-3
_COARSE = 0.02
"""Least step of a lattice in mean displacements; finer ones are the resolution of the file."""
_REJECTED_P = 1e-4
_REJECTED_Z = 5.0
_SIMULATIONS = 20
_SAME_DEGREES = 1e-7
_TIE_NATS = 3.0
_FAR_NATS = 60.0
"""Difference of the information criterion above which a hypothesis is not cross-validated."""
_NEARLY_NATS = 0.05
"""Difference per report up to which another hypothesis replaces one that a test rejects."""
SEED = 0
MOST_COMPARED_PAIRS = 4_000
"""Number of pairs above which the mechanism is identified from the first users; zones and attacks use all pairs."""
_HELD_OUT_ALREADY = ("regions", "zone_moved", "constant_offset", "drifting_offset")
"""Kinds that are penalised instead of cross-validated: each report is predicted from other reports of the user."""

FitFunction = Callable[[Sample, bool], Sequence[Fit]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A hypothesis with its score."""

    fit: Fit
    log_likelihood: float
    """Mean log probability of a held-out report, in nats."""
    difference: float
    """Score of the best minus this one, in nats per report."""
    error: float
    """Standard error of the difference."""


@dataclass(frozen=True, slots=True)
class Check:
    """A test of the chosen mechanism against the pairs."""

    name: str
    statistic: float
    p_value: float | None
    rejected: bool


@dataclass(frozen=True)
class Finding:
    """Result of an identification."""

    kind: str
    """Kind of the mechanism, with that of dropped reports; `unknown` if the best hypothesis is rejected."""
    fit: Fit
    presence: Presence
    candidates: tuple[Candidate, ...]
    checks: tuple[Check, ...]
    lattice: Lattice | None
    """Lattice of the reports, also one that is only the resolution of the file."""
    n_pairs: int
    n_sent: int

    @property
    def rejected(self) -> bool:
        """Whether a test rejects the best hypothesis."""
        return any(check.rejected for check in self.checks)

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """Parameters of the dropped reports and of the mechanism."""
        return (*self.presence.estimates, *self.fit.estimates)


def identify(sample: Sample, *, complete: bool = False) -> Finding:
    """Return the mechanism that explains the pairs best; with `complete`, rows without a report were not dropped."""
    presence = Presence("all", 0.0) if complete else fit_dropping(sample)
    kept = at_most(sample.rows(sample.sent), MOST_COMPARED_PAIRS)
    lattice = _lattice(kept)
    coarse = _coarse(lattice, kept)
    scored = _promising(kept, coarse)
    scores = [_cross_validated(function, fit, kept, coarse) for function, fit in scored]
    fits = [fit for _, fit in scored]
    best = _best(fits, scores)
    candidates = _candidates(fits, scores, best)
    checks: tuple[Check, ...] = ()
    chosen = fits[best]
    # The best one that no test rejects, among those of nearly the same likelihood.
    for candidate in sorted(candidates, key=lambda candidate: (candidate.fit is not chosen, candidate.difference)):
        tests = tuple(_checks(candidate.fit, kept))
        checks = checks or tests
        if not any(test.rejected for test in tests):
            chosen, checks = candidate.fit, tests
            break
        if candidate.difference > _NEARLY_NATS:
            break
    function = next(function for function, fit in scored if fit is chosen)
    fit = _with_intervals(function, chosen, kept)
    kind = "unknown" if any(check.rejected for check in checks) else fit.kind
    if presence.kind != "all":
        kind = presence.kind if kind == "identity" else f"{presence.kind}+{kind}"
    return Finding(kind, fit, presence, candidates, checks, lattice, len(sample), int(sample.sent.sum()))


def _with_intervals(function: FitFunction, fit: Fit, sample: Sample) -> Fit:
    """Return a fit with the intervals of its parameters; those that are slow to fit are not fitted again."""
    if isinstance(fit, OffsetFit):
        return with_intervals(fit, sample)
    if isinstance(fit, GridExponentialFit):
        return with_interval(fit, sample)
    return next((again for again in function(sample, True) if _same(again, fit)), fit)


def at_most(sample: Sample, count: int) -> Sample:
    """Return the pairs of the first users up to a number of pairs, at least one user."""
    if len(sample) <= count:
        return sample
    last = sample.user[count]
    whole = sample.user < last
    return sample.rows(whole) if whole.any() else sample.rows(np.arange(count))


def _promising(sample: Sample, lattice: Lattice | None) -> list[tuple[FitFunction, Fit]]:
    """Return the fitted hypotheses whose information criterion is near that of the best."""
    fits = _fitted(_certain(lattice), sample)
    if not any(fit.log_mass(sample).mean() > -_CERTAIN_NATS for _, fit in fits):
        regions = _fitted([lambda s, _: _some(fit_regions(s)), lambda s, _: _some(fit_moved_zone(s))], sample)
        fits += regions + _fitted(
            _random(lattice, with_memory=not any(f.kind == "regions" for _, f in regions)), sample
        )
        families = _families_of_rest(sample, lattice)
        fits += _fitted([partial(_noise_mixture, family, lattice) for family in families], sample)
    criteria = [_criterion(fit, sample, lattice) for _, fit in fits]
    order = sorted(range(len(fits)), key=lambda number: -criteria[number])
    return [fits[number] for number in order if criteria[number] > criteria[order[0]] - _FAR_NATS][:_MOST_COMPARED]


def _families_of_rest(sample: Sample, lattice: Lattice | None) -> list[Family]:
    """Return the two families that are most likely for the reports of other than the true place."""
    rest = sample.rows(~own_place(sample, lattice))
    if len(rest) == 0:
        return []
    fits = [fit for family in FAMILIES if (fit := fit_noise(family, rest, lattice, intervals=False)) is not None]
    ranked = sorted(fits, key=lambda fit: -float(fit.log_mass(rest).sum()))
    return [fit.family for fit in ranked[:2]]


def _fitted(functions: Sequence[FitFunction], sample: Sample) -> list[tuple[FitFunction, Fit]]:
    return [(function, fit) for function in functions for fit in function(sample, False)]


def _same(one: Fit, other: Fit) -> bool:
    """Return whether two fits are of the same hypothesis."""
    if isinstance(one, GridExponentialFit) and isinstance(other, GridExponentialFit):
        return (one.metric, one.border) == (other.metric, other.border)
    return one.kind == other.kind


def _lattice(sample: Sample) -> Lattice | None:
    """Return the lattice of the reports that are not the true position."""
    moved = ~sample.identical
    return find_lattice(sample.rows(moved)) if moved.sum() >= 20 else None


def _coarse(lattice: Lattice | None, sample: Sample) -> Lattice | None:
    """Return the lattice if it is part of the mechanism rather than the resolution of the file."""
    if lattice is None:
        return None
    width, height = lattice.size_m(sample.sent_lat)
    size = math.sqrt(float(np.median(width) * np.median(height)))
    return lattice if size > _COARSE * float(sample.distance_m[~sample.identical].mean()) else None


def _certain(lattice: Lattice | None) -> list[FitFunction]:
    """Return the deterministic hypotheses, which need no comparison if they explain the reports."""
    return [
        lambda s, _: _some(fit_identity(s)),
        lambda s, _: _some(fit_snapping(s, lattice)),
        lambda s, _: _some(fit_fixed_place(s)),
    ]


def _random(lattice: Lattice | None, *, with_memory: bool) -> list[FitFunction]:
    """Return the random hypotheses.

    Those with memory explain any correlation of the reports of a user. They are left out if the reports are a function
    of the place.
    """
    functions: list[FitFunction] = [partial(_noise, family, lattice, False) for family in FAMILIES]
    if lattice is not None:
        functions += [partial(_noise, family, lattice, True) for family in FAMILIES]
    functions.append(lambda s, _: _some(fit_hiding(s, lattice)))
    functions.append(lambda s, _: fit_grid_exponential(s, lattice))
    if with_memory:
        functions.append(lambda s, i: _some(fit_offset(s, lattice, intervals=i)))
        functions.append(lambda s, i: _some(fit_memory(s, lattice, intervals=i)))
    return functions


def _noise(family: Family, lattice: Lattice | None, from_cell: bool, sample: Sample, intervals: bool) -> list[Fit]:
    return _some(fit_noise(family, sample, lattice, from_cell=from_cell, intervals=intervals))


def _noise_mixture(family: Family, lattice: Lattice | None, sample: Sample, intervals: bool) -> list[Fit]:
    return _some(fit_noise_mixture(family, sample, lattice, intervals=intervals))


def _some(fit: Fit | None) -> list[Fit]:
    return [] if fit is None else [fit]


def _criterion(fit: Fit, sample: Sample, lattice: Lattice | None) -> float:
    """Return the log-likelihood less the penalty of the Bayesian information criterion."""
    return float(_score(fit, sample, lattice).sum()) - fit.n_free * math.log(len(sample)) / 2


def _score(fit: Fit, sample: Sample, lattice: Lattice | None) -> FloatArray:
    """Return the log probability of each report, with 0.1 % of outliers, which every hypothesis has."""
    wide = NoiseFit(FAMILIES[0], max(float(sample.distance_m.mean()), 10.0), lattice).log_mass(sample)
    return np.logaddexp(math.log1p(-_OUTLIERS) + fit.log_mass(sample), math.log(_OUTLIERS) + wide)


def _cross_validated(function: FitFunction, fit: Fit, sample: Sample, lattice: Lattice | None) -> FloatArray:
    """Return the log probability of each report by the hypothesis fitted to the other folds."""
    if fit.kind.split("+")[0] in _HELD_OUT_ALREADY:
        return _score(fit, sample, lattice) - fit.n_free * math.log(len(sample)) / 2 / len(sample)
    fold = folds(sample)
    score = np.empty(len(sample))
    for number in np.unique(fold):
        held = fold == number
        again = next((other for other in function(sample.rows(~held), False) if _same(other, fit)), None)
        score[held] = _score(fit if again is None else again, sample.rows(held), lattice)
    return score


def folds(sample: Sample) -> IntArray:
    """Return the fold of each pair: whole users if there are enough, otherwise blocks in time."""
    users = np.unique(sample.user)
    if users.size >= _FEWEST_USERS:
        return np.asarray(np.searchsorted(users, sample.user) % _FOLDS)
    return np.arange(len(sample)) * _FOLDS // max(len(sample), 1)


def _best(fits: Sequence[Fit], scores: Sequence[FloatArray]) -> int:
    """Return the hypothesis with the best score, or the simplest one within a tie."""
    totals = [float(score.sum()) for score in scores]
    top = max(totals)
    tied = [number for number, total in enumerate(totals) if total > top - _TIE_NATS]
    return min(tied, key=lambda number: (fits[number].n_free, -totals[number]))


def _candidates(fits: Sequence[Fit], scores: Sequence[FloatArray], best: int) -> tuple[Candidate, ...]:
    results = []
    for fit, score in zip(fits, scores, strict=True):
        difference = scores[best] - score
        error = float(difference.std() / math.sqrt(difference.size))
        results.append(Candidate(fit, float(score.mean()), float(difference.mean()), error))
    return tuple(sorted(results, key=lambda candidate: candidate.difference))


def _checks(fit: Fit, sample: Sample) -> list[Check]:
    """Return tests of the fitted mechanism against simulations of it.

    The distances and directions are compared by Kolmogorov-Smirnov tests if the draws are independent; the mean log
    probability and the correlation of consecutive displacements by their distance from the simulations.
    """
    if fit.n_free == 0 or fit.kind in ("snapping", "regions", "fixed_place", "zone_moved", "coin"):
        return []
    drawn = [_drawn(fit, sample, number) for number in range(_SIMULATIONS)]
    limit = _REJECTED_Z * (1 + 2 / math.sqrt(_SIMULATIONS))
    results = []
    if fit.memoryless() is fit:
        for name, value in (("distance", _distance), ("direction", _direction)):
            pooled = np.concatenate([value(one) for one in drawn])
            test = ks_2samp(value(sample), pooled, method="asymp")
            results.append(Check(name, float(test.statistic), float(test.pvalue), bool(test.pvalue < _REJECTED_P)))
    if isinstance(fit, OffsetFit) and fit.lattice is None and fit.white_m > 2 * LEAST_WHITE_M:
        normal = kstest(fit.innovations(sample), "norm")
        p_value = float(normal.pvalue)
        results.append(Check("innovations", float(normal.statistic), p_value, p_value < _REJECTED_P))
    exact = isinstance(fit, OffsetFit) and fit.white_m <= 2 * LEAST_WHITE_M
    statistics: list[tuple[str, Callable[[Sample], float]]] = [
        ("likelihood", lambda s: float(fit.log_mass(s).mean())),
        ("correlation", _correlation),
    ]
    if isinstance(fit, MixtureFit):
        statistics.append(("repetition at near places", partial(_moved_alike, fit.lattice)))
    for name, statistic in statistics:
        values = np.array([statistic(one) for one in drawn])
        z = float((statistic(sample) - values.mean()) / max(values.std(ddof=1), 1e-12))
        far = z < -limit if exact and name == "likelihood" else abs(z) > limit  # less noise than the assumed rounding
        results.append(Check(name, z, None, far))
    return results


def _drawn(fit: Fit, sample: Sample, number: int) -> Sample:
    """Return the true positions with simulated reports."""
    from sim.audit.displacement import M_PER_DEGREE, metres_per_degree_east

    dx, dy = fit.simulate(sample, stream(SEED, "audit.check", number))
    lon = sample.lon + dx / metres_per_degree_east(sample.lat)
    return Sample(sample.user, sample.time_s, sample.lat, sample.lon, sample.lat + dy / M_PER_DEGREE, lon)


def _distance(sample: Sample) -> FloatArray:
    return sample.distance_m


def _direction(sample: Sample) -> FloatArray:
    return np.arctan2(sample.dy_m, sample.dx_m)[sample.distance_m > 1.0]


def _moved_alike(lattice: Lattice | None, sample: Sample) -> float:
    """Return the share of the rows with another than the true place whose nearest other position has the same report.

    It is large if the report is a function of the place rather than drawn.
    """
    xy = np.column_stack(sample.true_xy_m)
    moved = ~own_place(sample, lattice)
    near = np.asarray(cKDTree(xy).query(xy[moved], k=2)[1])
    rows = np.where(near[:, 0] == np.flatnonzero(moved), near[:, 1], near[:, 0])
    sent = np.column_stack([sample.sent_lat, sample.sent_lon])
    return float((np.abs(sent[rows] - sent[moved]).max(axis=1) < _SAME_DEGREES).mean()) if moved.any() else 0.0


def _correlation(sample: Sample) -> float:
    after = np.flatnonzero(sample.follows)
    product = (sample.dx_m[after] * sample.dx_m[after - 1] + sample.dy_m[after] * sample.dy_m[after - 1]).mean()
    return float(product / max((sample.dx_m**2 + sample.dy_m**2).mean(), 1e-9)) if after.size else 0.0
