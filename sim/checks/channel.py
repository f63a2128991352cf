"""Contract checks of a channel returned by a design."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sim.checks.bench import Bench
from sim.checks.requirements import (
    ContractBroken,
    require,
    require_callable,
    require_distribution,
    require_flag,
    value_of,
)
from sim.components.imports import FAULTS_OF_CODE
from sim.interfaces import (
    Channel,
    ChannelCapabilities,
    FloatArray,
    IntArray,
    OutputSpace,
    OwnOutputs,
    has_own_outputs,
)
from sim.lppm import outputs
from sim.lppm.estimates import estimates_from
from sim.rng import stream


def is_countless(channel: Channel) -> bool:
    """Return whether a channel has too many outputs to list."""
    return bool(ChannelCapabilities.countless.of(channel))


def drawn(channel: Channel, cell: int, count: int) -> list[int]:
    """Return outputs drawn by a channel from a fixed random stream."""
    rng = stream(3, "samples")
    return [channel.sample(cell, rng) for _ in range(count)]


def signature(channel: Channel) -> FloatArray:
    """Return an array that identifies a channel: its matrix, or the likelihoods of some drawn outputs."""
    if not is_countless(channel):
        return np.array(channel.matrix())
    return np.stack([channel.likelihood(output) for output in drawn(channel, 5, 20)])


def require_probabilities(channel: Channel, n_cells: int) -> None:
    """Require that each row of the matrix is a distribution over outputs."""
    valid = has_own_outputs(channel) or channel.n_outputs == n_cells
    require(valid, f"n_outputs must be the number of cells, {n_cells}, got {channel.n_outputs}")
    matrix, shape = channel.matrix(), (n_cells, channel.n_outputs)
    require(np.shape(matrix) == shape, f"matrix() must have shape {shape}, got {np.shape(matrix)}")
    for cell, row in enumerate(matrix):
        require_distribution(row, channel.n_outputs, f"row {cell} of the channel")


def require_likelihoods(channel: Channel, n_cells: int) -> None:
    """Require that a countless channel has valid likelihoods of drawn outputs and does not list its outputs."""
    for cell in range(n_cells):
        for output in drawn(channel, cell, 5):
            values = np.asarray(channel.likelihood(output))
            require(
                values.shape == (n_cells,), f"likelihood({output}) must have shape ({n_cells},), got {values.shape}"
            )
            valid = bool(np.isfinite(values).all() and (values >= 0).all())
            require(valid, f"likelihood({output}) must be in [0, inf), got {values.min()} to {values.max()}")
            require(values[cell] > 0, f"sample({cell}) drew output {output}, but likelihood({output})[{cell}] is 0")
    for name, call in (
        ("row", lambda: channel.row(0)),
        ("matrix", channel.matrix),
        ("likelihoods", channel.likelihoods),
    ):
        try:
            call()
        except FAULTS_OF_CODE as error:
            require(bool(str(error)), f"{name} must raise an error with a message, got {error!r}")
        else:
            raise ContractBroken(f"`countless` is True, but {name} does not raise an error")


def require_consistent(channel: Channel, n_cells: int) -> None:
    """Require that `row`, `likelihood` and `likelihoods` are rows and columns of `matrix`."""
    matrix = channel.matrix()
    for output in range(channel.n_outputs):
        same = np.allclose(channel.likelihood(output), matrix[:, output], atol=1e-12)
        require(same, f"likelihood({output}) differs from column {output} of matrix()")
    possible, rows = channel.likelihoods()
    same = np.array_equal(possible, np.flatnonzero(matrix.any(axis=0)))
    require(same, "likelihoods() must list the outputs with positive probability in matrix()")
    same = np.allclose(rows, matrix[:, possible].T, atol=1e-12)
    require(same, "likelihoods() differs from the columns of matrix()")
    for cell in range(n_cells):
        same = np.allclose(channel.row(cell), matrix[cell], atol=1e-12)
        require(same, f"row({cell}) differs from matrix()[{cell}]")


def require_samples(channel: Channel) -> None:
    """Require that `sample` draws outputs with the probabilities of `row`."""
    require_shares(drawn(channel, 5, 4000), channel.row(5), "sample(5)")


def require_shares(outputs: list[int], row: FloatArray, name: str) -> None:
    """Require that outputs drawn in cell 5 have the probabilities of `row`."""
    draws = len(outputs)
    shares = np.bincount(outputs, minlength=row.size) / draws
    require(not shares[row == 0].any(), f"{name} drew an output with probability 0 in row(5)")
    # Five standard deviations, plus one draw for outputs with tiny probabilities.
    allowed = 5 * np.sqrt(np.maximum(row * (1 - row), 0) / draws) + 1 / draws
    worst = int(np.argmax(np.abs(shares - row) - allowed))
    require(
        bool(abs(shares[worst] - row[worst]) <= allowed[worst]),
        f"{name} drew output {worst} with relative frequency {shares[worst]:.4f}, row(5) has {row[worst]:.4f}",
    )


def require_space(channel: OwnOutputs, space: OutputSpace, bench: Bench) -> None:
    """Require a space that a manifest can restore, with valid cells and losses of its outputs."""
    n_cells = bench.n_cells
    restored = outputs.read(json.loads(json.dumps(space.describe())), bench.world.grid)
    require(restored == space, f"describe() must restore the space {space!r}, got {restored!r}")
    for output in {output for cell in range(n_cells) for output in drawn(channel, cell, 5)}:
        cells = space.cells(output)
        valid = all(0 <= cell < n_cells for cell in cells)
        require(valid, f"cells({output}) must be in [0, {n_cells}), got {cells}")
        shown_at = space.shown_at(output)
        valid = -1 <= shown_at < n_cells
        require(valid, f"shown_at({output}) must be in [-1, {n_cells}), got {shown_at}")
        valid = bool(cells) == (output != space.nothing)
        require(valid, f"cells({output}) must be empty only for the output `nothing`, {space.nothing}, got {cells}")
        losses = [channel.loss_of_km(cell, output) for cell in range(n_cells)]
        require(bool(np.isfinite(losses).all() and min(losses) >= 0), f"losses must be in [0, inf), got {losses}")
    for cell in range(n_cells):
        expected = channel.expected_loss_of_km(cell)
        require(0 <= expected < np.inf, f"expected_loss_of_km({cell}) must be in [0, inf), got {expected}")
        if not channel.countless:
            by_row = sum(p * channel.loss_of_km(cell, z) for z, p in enumerate(channel.row(cell)) if p > 0)
            same = bool(np.isclose(expected, by_row))
            require(same, f"expected_loss_of_km({cell}) must be the mean over row({cell}), {by_row}, got {expected}")


def require_description(channel: Channel, bench: Bench) -> None:
    """Require valid optional methods; `countless` requires a `space` and an epsilon that bounds likelihoods."""
    require_flag(ChannelCapabilities.countless, channel)
    value_of(ChannelCapabilities.space, channel)
    estimates = require_callable(ChannelCapabilities.estimates, channel)
    compact_likelihood = require_callable(ChannelCapabilities.compact_likelihood, channel)
    only_cells = require_callable(ChannelCapabilities.only_cells, channel)
    if not is_countless(channel):
        if only_cells is not None:
            _require_only_cells(channel, only_cells(), bench)
        if compact_likelihood is not None:
            _require_compact_rows(channel, compact_likelihood, bench)
        if estimates is not None:
            _require_estimates(channel, estimates, bench)
        return
    require(has_own_outputs(channel), "`countless` is True, but there is no `space`")
    epsilon_in_per_km = require_callable(ChannelCapabilities.epsilon_in_per_km, channel)
    if epsilon_in_per_km is None:
        _require_epsilon(channel, value_of(ChannelCapabilities.epsilon_per_km, channel), "`epsilon_per_km`", bench)
    else:
        epsilon_per_km = epsilon_in_per_km(bench.world.quality_distance)
        _require_epsilon(channel, epsilon_per_km, "epsilon_in_per_km(distance)", bench)


def _require_estimates(channel: Channel, estimates: Callable[..., tuple[IntArray, int]], bench: Bench) -> None:
    """Require the estimates that follow from `likelihoods`, under priors with and without zeros."""
    distance = bench.world.privacy_distance
    for prior in (bench.statistics.profile, np.full(bench.n_cells, 1 / bench.n_cells)):
        expected, missing = estimates_from(channel.likelihoods(), channel.n_outputs, prior, distance)
        by_output, number = estimates(prior, distance)
        same = np.array_equal(by_output, expected)
        require(same, f"estimates(prior, distance) must be {expected.tolist()}, as from likelihoods(), got {by_output}")
        counted = number >= missing
        require(counted, f"estimates(prior, distance) must count {missing} outputs without mass, got {number}")


def _require_only_cells(channel: Channel, cells: Any, bench: Bench) -> None:
    """Require that no output is possible in another cell than the stated one."""
    shape = (channel.n_outputs,)
    require(np.shape(cells) == shape, f"only_cells() must have shape {shape}, got {np.shape(cells)}")
    valid = bool((np.asarray(cells) >= -1).all() and (np.asarray(cells) < bench.n_cells).all())
    require(valid, f"only_cells() must be in [-1, {bench.n_cells}), got {cells}")
    for output, cell in enumerate(np.asarray(cells).tolist()):
        possible = np.flatnonzero(channel.likelihood(output)).tolist()
        message = f"only_cells()[{output}] is {cell}, but output {output} is possible in {possible}"
        require(cell < 0 or possible == [cell], message)


def _require_compact_rows(channel: Channel, compact_likelihood: Callable[[int], Any], bench: Bench) -> None:
    """Require that likelihoods in compact form are those of `likelihood`."""
    for output in channel.likelihoods()[0].tolist():
        row = compact_likelihood(output)
        same = row is None or np.allclose(row.dense(bench.n_cells), channel.likelihood(output), rtol=1e-9, atol=1e-15)
        require(same, f"compact_likelihood({output}) differs from likelihood({output})")


def _require_epsilon(channel: Channel, epsilon: Any, name: str, bench: Bench) -> None:
    """Require f(z | x) <= exp(epsilon d(x, x')) f(z | x') for some drawn outputs."""
    valid = isinstance(epsilon, int | float | np.number) and epsilon >= 0
    require(valid, f"{name} must be a number in [0, inf], got {epsilon!r}")
    if epsilon == math.inf:
        return
    with np.errstate(divide="ignore", invalid="ignore"):
        for output in drawn(channel, 5, 20):
            logs = np.log(channel.likelihood(output))
            excess = logs[:, None] - logs - epsilon * bench.world.quality_distance.matrix_km
            require(not (excess > 1e-9).any(), f"{name} is {epsilon}, but the likelihoods of output {output} exceed it")
