"""The random sample of a stream: its size, its independence of batches, and its uniformity."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from sim.datasets.survey.row_sample import RowSample
from sim.interfaces import FloatArray


def sampled(rows: int, *, size: int, batch: int) -> RowSample:
    sample = RowSample(columns=2, size=size)
    for start in range(0, rows, batch):
        numbers = np.arange(start, min(start + batch, rows), dtype=float)
        sample.add(np.stack([numbers, -numbers], axis=1))
    return sample


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_a_short_stream_is_the_sample(batch: int) -> None:
    sample = sampled(500, size=500, batch=batch)
    assert sample.is_complete
    assert sample.rows()[:, 0].tolist() == list(range(500))


def test_the_sample_has_its_size_and_does_not_depend_on_batches() -> None:
    results: list[FloatArray] = [sampled(20_000, size=300, batch=batch).rows() for batch in (13, 500, 20_000)]
    for rows in results:
        assert np.array_equal(rows, results[0])
    assert results[0].shape == (300, 2)
    assert not sampled(20_000, size=300, batch=100).is_complete
    assert (results[0][:, 0] == -results[0][:, 1]).all()
    assert (np.diff(results[0][:, 0]) > 0).all()


def test_the_sample_is_uniform() -> None:
    rows = sampled(200_000, size=5000, batch=4096).rows()[:, 0]
    assert kstest(rows / 200_000, "uniform").pvalue > 0.01
    parities = rows.astype(int) % 2
    assert abs(parities.mean() - 0.5) < 0.03
