"""Theoretical metrics of a channel under a prior: loss, error of the optimal estimate, entropy, worst loss, epsilon.

A mechanism designs its channel for the prior of its belief, and these metrics hold under that prior. A real user
behaves differently; the simulation measures the outcome (Oya et al. 2019).
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from sim.inference import kernels
from sim.inference.bayes import plain_floats
from sim.inference.dense import DENSE_BYTES, dense_bytes
from sim.interfaces import Channel, ChannelCapabilities, FloatArray, IntArray, OwnOutputs, has_own_outputs
from sim.lppm.calibration import expected_loss_km
from sim.lppm.channels.mix import MixChannel
from sim.lppm.channels.planar import PlanarRemappedChannel
from sim.lppm.epsilon import exact_epsilon_per_km
from sim.world.distance import Distance

MOST_CELLS = 3_000
"""Largest number of cells for which all metrics are computed; beyond, only the loss where it needs no enumeration."""


class Theory(NamedTuple):
    """Exact metrics of a channel under a prior.

    A field is None if there are too many outputs or cells to enumerate, if outputs depend on a hidden state (except for
    the loss, which is that with a new secret), or if it was not requested. d_Q and d_P are the quality and the privacy
    distance of the world.
    """

    quality_loss_km: float | None
    """Q, the sum over x and z of prior(x) f(z | x) d_Q(x, z)."""
    adversary_error_km: float | None = None
    """P_AE, the sum over z of the minimum over estimates y of the sum over x of prior(x) f(z | x) d_P(x, y)."""
    entropy_bits: float | None = None
    """H(x | z), the remaining uncertainty about the cell given the output."""
    worst_loss_km: float | None = None
    """The largest d_Q(x, z) over all cells x with prior mass and their possible outputs z."""
    epsilon_per_km: float | None = None
    """Smallest epsilon for which the channel is geo-indistinguishable; it does not depend on the prior."""


def theory(
    channel: Channel, prior: FloatArray, *, quality: Distance, privacy: Distance, epsilon_in: Distance | None = None
) -> Theory:
    """Return the metrics of a channel under a prior.

    P_AE follows Shokri et al. 2011 with the optimal estimate for each output, entropy and worst loss follow Oya et al.
    2017, epsilon follows Andrés et al. 2013. The exact epsilon is slow to compute; it is computed per km of the
    distance `epsilon_in`, and omitted without one.

    >>> from sim.lppm.channels.hiding import location_hiding
    >>> from sim.world import Grid, manhattan
    >>> line = manhattan(Grid.rectangle(rows=1, cols=2, width_km=2.0, height_km=1.0))
    >>> theory(location_hiding(2, 0.75), np.array([0.5, 0.5]), quality=line, privacy=line)[:2]
    (0.25, 0.25)
    """
    epsilon = None if epsilon_in is None else exact_epsilon_per_km(channel, epsilon_in)
    if ChannelCapabilities.hidden_state.of(channel) is not None:  # other metrics would be those of a single report
        return Theory(expected_loss_km(channel, prior, quality), epsilon_per_km=epsilon)
    if not has_own_outputs(channel) and prior.size > MOST_CELLS:
        inner = channel.other if isinstance(channel, MixChannel) else channel
        unlisted = isinstance(inner, PlanarRemappedChannel)  # its loss needs all outputs
        return Theory(None if unlisted else expected_loss_km(channel, prior, quality), epsilon_per_km=epsilon)
    if ChannelCapabilities.countless.of(channel) or (
        has_own_outputs(channel) and dense_bytes(prior.size) > DENSE_BYTES
    ):
        return Theory(_expected_loss_km(cast(OwnOutputs, channel), prior), epsilon_per_km=epsilon)
    outputs, likelihoods = channel.likelihoods()
    if has_own_outputs(channel):
        joint = likelihoods * prior
        loss_km, worst_km = _expected_loss_km(channel, prior), _worst_loss_km(channel, outputs, joint)
        entropy_bits = conditional_entropy_bits(joint)
    else:
        loss_km, worst_km, entropy_bits = joint_metrics(likelihoods, prior, outputs, quality.matrix_km)
    estimates = privacy.best_cell_each(prior, likelihoods)
    if privacy is quality and ((estimates == outputs) | (estimates < 0)).all():
        error_km = loss_km  # a mechanism that remaps for the same distance reports the estimates themselves
    else:
        error_km = _error_km(estimates, likelihoods * prior, privacy)
    return Theory(loss_km, error_km, entropy_bits, worst_km, epsilon)


def joint_metrics(
    likelihoods: FloatArray, prior: FloatArray, outputs: IntArray, distance_km: FloatArray
) -> tuple[float, float, float]:
    """Return the expected loss and the worst loss in km and H(x | z) in bits, for outputs that are cells.

    `likelihoods` has the likelihood f(z | .) of each of the `outputs`, shape (k, n_cells); `distance_km` is d_Q as a
    matrix [cell, output].

    >>> joint_metrics(np.eye(2), np.array([0.5, 0.5]), np.array([1, 0]), np.array([[0.0, 3.0], [1.0, 0.0]]))
    (2.0, 3.0, 0.0)
    """
    cells = np.ascontiguousarray(outputs, dtype=np.int64)
    fits = likelihoods.shape == (cells.size, *prior.shape) and distance_km.shape == 2 * prior.shape
    inside = cells.size > 0 and cells.view(np.uint64).max() < prior.size  # unsigned: covers negative outputs too
    if fits and inside and (fast := kernels.compiled()) is not None:
        return fast.joint_metrics(plain_floats(likelihoods), plain_floats(prior), cells, plain_floats(distance_km))
    joint = likelihoods * prior
    between_km = distance_km.T[outputs]
    return float(np.vdot(joint, between_km)), _worst_km(between_km, joint), conditional_entropy_bits(joint)


def conditional_entropy_bits(joint: FloatArray) -> float:
    """Return H(x | z) = H(x, z) - H(z) in bits of a joint distribution [output, cell] (Oya et al. 2017).

    >>> conditional_entropy_bits(np.array([[0.25, 0.25], [0.5, 0.0]]))
    0.5
    """
    return max(_negative_log_sum(joint) - _negative_log_sum(joint.sum(axis=1)), 0.0)


def _negative_log_sum(masses: FloatArray) -> float:
    """Return the sum of -p log2 p, with 0 log2 0 = 0."""
    logs = np.maximum(masses, np.finfo(np.float64).smallest_subnormal)  # the logarithm of zeros is finite, its weight 0
    np.log2(logs, out=logs)
    return -float(np.vdot(masses, logs))


def _worst_km(between_km: FloatArray, joint: FloatArray) -> float:
    """Return the largest distance with positive probability."""
    return float((between_km * (joint > 0)).max(initial=0.0))  # a masked maximum takes four times as long


def _error_km(estimates: IntArray, joint: FloatArray, privacy: Distance) -> float:
    # An output without mass has no estimate (-1) and contributes 0, whichever cell replaces it.
    return float(np.vdot(joint, privacy.matrix_km.T[np.maximum(estimates, 0)]))


def _expected_loss_km(channel: OwnOutputs, prior: FloatArray) -> float:
    return sum(float(prior[cell]) * channel.expected_loss_of_km(cell) for cell in np.flatnonzero(prior).tolist())


def _worst_loss_km(channel: OwnOutputs, outputs: IntArray, joint: FloatArray) -> float:
    """Return the largest loss in km over pairs of cell and output with positive probability."""
    places, cells = np.nonzero(joint)
    pairs = zip(cells.tolist(), outputs[places].tolist(), strict=True)
    return max((channel.loss_of_km(cell, output) for cell, output in pairs), default=0.0)
