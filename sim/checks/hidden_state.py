"""Contract checks of the hidden state of a channel."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from sim.checks import channel as channels
from sim.checks.bench import Bench
from sim.checks.requirements import require, require_flag, require_share
from sim.events import Report
from sim.interfaces import (
    Channel,
    FloatArray,
    HiddenState,
    HiddenStateCapabilities,
    StateTracker,
    StateTrackerCapabilities,
)
from sim.rng import stream

_WALK = ((3_600, 5), (28_800, 5), (29_100, 0), (100_000, 5), (100_300, 11))
"""Times and cells of some queries."""


def require_secret(hidden: HiddenState, channel: Channel) -> None:
    """Require that `draw` is reproducible, does not change secrets, and draws like `sample` at first."""
    require(isinstance(hidden.approximation, str), f"approximation must be a string, got {hidden.approximation!r}")
    runs = [list(_drawn(hidden, channel, 3)) for _ in range(2)]
    require(runs[0] == runs[1], "two series of outputs of `draw` from the same random stream differ")
    for place, (output, _) in enumerate(zip(runs[0], _WALK, strict=True), start=1):
        valid = 0 <= output < channel.n_outputs and int(output) == output
        require(valid, f"draw must return an output in [0, {channel.n_outputs}), got {output!r} at query {place}")
    require_flag(HiddenStateCapabilities.depends_on_user, hidden)
    if not channels.is_countless(channel) and not HiddenStateCapabilities.depends_on_user.of(hidden):
        _require_first_outputs(hidden, channel)


def _drawn(hidden: HiddenState, channel: Channel, seed: int) -> Any:
    """Yield the outputs of a walk; require that no secret is changed."""
    rng, secret = stream(seed, "secrets"), None
    for time_s, cell in _WALK:
        before = pickle.dumps(secret)
        output, following = hidden.draw(secret, channel, time_s, cell, rng)
        require(pickle.dumps(secret) == before, "draw changed its argument `secret`")
        secret = following
        yield output


def _require_first_outputs(hidden: HiddenState, channel: Channel) -> None:
    """Require that the first output has the probabilities of `row`."""
    rng, draws = stream(3, "samples"), 4000
    outputs = [hidden.draw(None, channel, 3_600, 5, rng)[0] for _ in range(draws)]
    channels.require_shares(outputs, channel.row(5), "draw with a new secret")


def require_tracker(hidden: HiddenState, channel: Channel, bench: Bench) -> None:
    """Require that a tracker starts from the channel's likelihood, allows the true cells, and can be pickled."""
    for seed in range(3):
        outputs = list(_drawn(hidden, channel, seed))
        tracker = hidden.tracker()
        prior: FloatArray = np.full(bench.n_cells, 1 / bench.n_cells)
        for index, ((time_s, cell), output) in enumerate(zip(_WALK, outputs, strict=True), start=1):
            report = Report("ann", index, time_s, output, channel)
            same: StateTracker = pickle.loads(pickle.dumps(tracker))
            likelihood = np.array(tracker.likelihood(report, prior, None))
            _require_likelihood(likelihood, index, bench)
            if index == 1:
                valid = np.allclose(likelihood, channel.likelihood(output), atol=1e-9)
                require(valid, f"the likelihood of output {output} at the first query must be that of the channel")
            possible = bool(likelihood[cell] > 0)
            require(possible, f"the likelihood of output {output}, drawn in cell {cell}, is 0 there at query {index}")
            valid = np.allclose(likelihood, same.likelihood(report, prior, None), atol=1e-9)
            require(valid, "a pickled copy of the tracker returned another likelihood")
            require_share(StateTrackerCapabilities.dropped, tracker)
            tracker.condition(prior * likelihood / float(prior @ likelihood))


def _require_likelihood(likelihood: FloatArray, index: int, bench: Bench) -> None:
    shape = likelihood.shape
    require(shape == (bench.n_cells,), f"the likelihood of a tracker must have shape ({bench.n_cells},), got {shape}")
    valid = bool(np.isfinite(likelihood).all() and (likelihood >= 0).all())
    require(valid, f"the likelihood of a tracker must be in [0, inf), got {likelihood} at query {index}")
