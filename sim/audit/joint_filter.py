"""Filter of the pair (place, offset) of a user from reports alone.

The adversary never sees a true position of the user. Each place has a weight and a Gaussian offset. A report z at place
x shows the offset z - x, up to the size of the place and of the reported cell. The offsets of all ways to a place are
replaced by one of the same mean and variance (interacting multiple models: Blom and Bar-Shalom 1988), which is exact
for the first two reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from sim.audit.displacement import Sample
from sim.audit.memory_attack import cell_shift
from sim.audit.offset import OffsetFit
from sim.inference.bayes import normalise
from sim.interfaces import FloatArray, IntArray

JOINT_ATTACK = "reports only, offset learned"
_MOST_SOURCES = 64
"""Number of the most probable places after a report that are continued."""
_TINY = 1e-300

Transition = Callable[[IntArray], FloatArray]
"""Returns M(to | from) for some places, shape (n_from, n_places)."""


class Places(NamedTuple):
    """Where the user can be."""

    xy_m: FloatArray
    """Shape (n_places, 2)."""
    variance_m2: FloatArray
    """Variance of a uniform position in the square that a place stands for, by axis, shape (n_places, 2)."""
    profile: FloatArray
    """Distribution of the first place, shape (n_places,)."""
    lasting: bool = True
    """Whether the position within a place stays the same while the user stays: then reports at one place do not make
    the offset more certain than the size of the place."""


class _Belief(NamedTuple):
    """Weights of the places, and the Gaussian offset given each place, by axis, of shape (n_places, 2)."""

    weights: FloatArray
    mean: FloatArray
    variance: FloatArray


def joint_posteriors(
    fit: OffsetFit,
    reported_m: FloatArray,
    error_m2: FloatArray,
    time_s: FloatArray,
    places: Places,
    transition: Callable[[float], Transition],
) -> Iterator[FloatArray]:
    """Yield the distribution of the place after each report of a user.

    `reported_m` and `error_m2` have the reported positions and the variance of their error, by axis, shape (n, 2).
    `transition` returns the transitions between places after a gap in seconds.
    """
    belief = _Belief(places.profile, np.zeros_like(places.xy_m), np.full_like(places.xy_m, fit.sd_m**2))
    gaps = np.diff(time_s, prepend=math.nan)
    for gap_s, report, error in zip(gaps.tolist(), reported_m, error_m2, strict=True):
        noise = places.variance_m2 + error
        least = noise if places.lasting else np.zeros_like(noise)
        first = math.isnan(gap_s)
        link = _given_profile(places.profile) if first else transition(gap_s)
        after = _observed(_drifted(belief, fit, gap_s), report - places.xy_m, noise, least, link)
        belief = after or _restarted(fit, report - places.xy_m, noise, places.profile)
        yield belief.weights


def _given_profile(profile: FloatArray) -> Transition:
    return lambda sources: np.broadcast_to(profile, (sources.size, profile.size))


def _drifted(belief: _Belief, fit: OffsetFit, gap_s: float) -> _Belief:
    """Return the offsets after a gap, which drift back to zero."""
    keep = 1.0 if math.isnan(gap_s) else math.exp(-max(gap_s, 0.0) / 3600 / fit.time_constant_h)
    variance = keep**2 * belief.variance + (1 - keep**2) * fit.sd_m**2
    return _Belief(belief.weights, keep * belief.mean, variance)


def _observed(
    belief: _Belief, shown: FloatArray, noise: FloatArray, least: FloatArray, link: Transition
) -> _Belief | None:
    """Return the belief after a report, which shows an offset at each place; None if it is impossible.

    The variance of an offset becomes at most as small as `least`.
    """
    sources = np.argsort(-belief.weights, kind="stable")[:_MOST_SOURCES]
    sources = sources[belief.weights[sources] > 0]
    mean, variance = belief.mean[sources, None], belief.variance[sources, None]  # [from, 1, axis]
    total = variance + noise
    surprise = shown - mean  # [from, to, axis]
    log_density = -0.5 * (surprise**2 / total + np.log(total)).sum(axis=2)
    joint = belief.weights[sources, None] * link(sources) * np.exp(log_density - log_density.max())
    weights = joint.sum(axis=0)
    if not weights.sum() > _TINY:
        return None
    share = (joint / np.maximum(weights, _TINY))[:, :, None]
    gain = variance / total
    updated = mean + gain * surprise
    after = (share * updated).sum(axis=0)
    spread = (share * ((1 - gain) * variance + (updated - after) ** 2)).sum(axis=0)
    known = np.minimum((share * variance).sum(axis=0), least)
    return _Belief(normalise(weights), after, np.maximum(spread, np.maximum(known, 1e-6)))


def _restarted(fit: OffsetFit, shown: FloatArray, noise: FloatArray, profile: FloatArray) -> _Belief:
    """Return the belief after a report with an unknown offset."""
    total = fit.sd_m**2 + noise
    log_density = -0.5 * (shown**2 / total + np.log(total)).sum(axis=1)
    gain = fit.sd_m**2 / total
    weights = normalise(np.maximum(profile * np.exp(log_density - log_density.max()), _TINY))
    return _Belief(weights, gain * shown, (1 - gain) * fit.sd_m**2)


def reported(fit: OffsetFit, sample: Sample) -> tuple[FloatArray, FloatArray]:
    """Return the corrections of the reports to the centres of their cells in metres, and the variance of their error.

    Both have shape (n, 2).
    """
    error = np.full((len(sample), 2), fit.white_m**2)
    if fit.lattice is not None:
        error += np.column_stack(fit.lattice.size_m(sample.sent_lat)) ** 2 / 12
    return cell_shift(fit, sample), error
