"""Contract checks of beliefs."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np

from sim.checks.bench import Bench
from sim.checks.requirements import (
    require,
    require_callable,
    require_count,
    require_distribution,
    require_flag,
    value_of,
)
from sim.interfaces import Belief, BeliefCapabilities, FloatArray


def belief_is_a_distribution(belief: Belief, bench: Bench) -> None:
    """Prior and posterior are distributions over cells at every report."""
    for time_s, likelihood in bench.observations():
        require_distribution(belief.prior(time_s), bench.n_cells, f"the prior at {time_s} s")
        require_distribution(belief.observe(time_s, likelihood), bench.n_cells, f"the posterior at {time_s} s")


def belief_changes_only_by_observe(belief: Belief, bench: Bench) -> None:
    """`prior` is pure: two calls return the same; `observe` does not change its input."""
    for time_s, likelihood in bench.observations():
        before, first = likelihood.copy(), np.array(belief.prior(time_s))
        require(np.array_equal(first, belief.prior(time_s)), f"two calls of prior({time_s}) differ")
        belief.observe(time_s, likelihood)
        require(np.array_equal(before, likelihood), "observe changed its argument `likelihood`")
        # Users share a mechanism with a fixed belief, and `observe` is not called on it.
        same = np.array_equal(first, belief.prior(time_s))
        changes = not BeliefCapabilities.fixed.of(belief)
        require(same or changes, "`fixed` is True, but observe changed the prior")


def belief_can_be_pickled(belief: Belief, bench: Bench) -> None:
    """A pickled copy returns the same posteriors as the original, as worker processes require."""
    observations = list(bench.observations())
    for time_s, likelihood in observations[:6]:
        belief.observe(time_s, likelihood)
    copy: Belief = pickle.loads(pickle.dumps(belief))
    for time_s, likelihood in observations[6:]:
        same = np.allclose(belief.observe(time_s, likelihood), copy.observe(time_s, likelihood), atol=1e-9)
        require(same, f"the posterior of the copy at {time_s} s differs from that of the original")


def belief_capabilities_are_valid(belief: Belief, bench: Bench) -> None:
    """The optional capabilities are valid: flags, counts and gaps have legal values, methods do what they promise."""
    require_flag(BeliefCapabilities.fixed, belief)
    if require_callable(BeliefCapabilities.observe_compact, belief) is not None:
        _require_same_observation(belief, bench)
    if require_callable(BeliefCapabilities.link, belief) is not None:
        _require_linked_priors(belief, bench)
    if require_callable(BeliefCapabilities.solution, belief) is not None:
        require(require_callable(BeliefCapabilities.resume, belief) is not None, "`solution` requires `resume`")
        _require_same_resumed(belief, bench)
    fallbacks = alarms = 0
    for time_s, likelihood in bench.observations():
        belief.observe(time_s, likelihood)
        fallbacks = require_count(BeliefCapabilities.fallbacks, belief, at_least=fallbacks)
        alarms = require_count(BeliefCapabilities.alarms, belief, at_least=alarms)
        worst_gap: Any = value_of(BeliefCapabilities.worst_gap, belief)
        is_number = isinstance(worst_gap, int | float | np.number)
        valid = worst_gap is None or (is_number and 0 <= worst_gap < math.inf)
        require(valid, f"`worst_gap` must be None or a number in [0, inf), got {worst_gap!r}")


def _require_same_observation(belief: Belief, bench: Bench) -> None:
    """Require that `observe_compact` does the same as `observe`."""
    one, other = copy.deepcopy(belief), copy.deepcopy(belief)
    observe_compact = BeliefCapabilities.observe_compact.of(other)
    assert observe_compact is not None
    for time_s, likelihood in bench.observations():
        expected = one.observe(time_s, likelihood)
        same = np.allclose(observe_compact(time_s, likelihood, lambda: None), expected, atol=1e-9)
        require(same, f"the posterior of observe_compact at {time_s} s differs from that of observe")


def _require_same_resumed(belief: Belief, bench: Bench) -> None:
    """Require that a belief that receives the solutions of another one has the same priors, bit by bit."""
    one, other = copy.deepcopy(belief), copy.deepcopy(belief)
    solution_of, resume = BeliefCapabilities.solution.of(one), BeliefCapabilities.resume.of(other)
    assert solution_of is not None
    assert resume is not None
    for time_s, likelihood in bench.observations():
        expected = one.prior(time_s)
        solution = solution_of()
        vector = isinstance(solution, np.ndarray) and solution.ndim == 1 and solution.dtype == np.float64
        require(solution is None or vector, f"solution() must return a vector of float64 or None, got {solution!r}")
        if solution is not None:
            resume(solution.copy())
        same = np.array_equal(expected, other.prior(time_s))
        require(same, f"the prior at {time_s} s after resume differs from that after the computation")
        one.observe(time_s, likelihood)
        other.observe(time_s, likelihood)


def _require_linked_priors(belief: Belief, bench: Bench) -> None:
    """Require that the transitions of `link` lead from the last posterior to the prior."""
    observed = copy.deepcopy(belief)
    link_of, posterior = BeliefCapabilities.link.of(observed), None
    assert link_of is not None
    for time_s, likelihood in bench.observations():
        link = link_of(time_s)
        require(link is None or posterior is not None, "link must be None before the first report")
        if link is not None and posterior is not None:
            same = np.allclose(link.forward(posterior), observed.prior(time_s), atol=1e-9)
            require(same, f"link({time_s}) must lead from the last posterior to the prior at this time")
        posterior = observed.observe(time_s, likelihood)


def belief_uses_its_fallback_priors(belief: Belief, bench: Bench) -> None:
    """The optional `fallback_priors` are distributions; `observe` uses them, in order, for reports without mass."""
    for cell, here in enumerate(np.eye(bench.n_cells)):
        belief.observe(600 * cell, here)
        fallback_priors = [np.array(each) for each in value_of(BeliefCapabilities.fallback_priors, belief)]
        if not fallback_priors:
            continue
        for fallback_prior in fallback_priors:
            require_distribution(fallback_prior, bench.n_cells, "a fallback prior")
        time_s = 600 * cell + 300
        likelihood = np.where(np.array(belief.prior(time_s)) == 0, np.linspace(0.1, 0.9, bench.n_cells), 0.0)
        expected = _first_posterior(fallback_priors, likelihood)
        if expected is not None:
            posterior = belief.observe(time_s, likelihood)
            same = np.allclose(posterior, expected, atol=1e-9)
            require(
                same, "the posterior of a report without mass must be that of the first of `fallback_priors` with mass"
            )


def _first_posterior(priors: list[FloatArray], likelihood: FloatArray) -> FloatArray | None:
    """Return the posterior under the first prior with mass, or None."""
    joints = (prior * likelihood for prior in priors)
    return next((joint / joint.sum() for joint in joints if joint.sum() > 0), None)
