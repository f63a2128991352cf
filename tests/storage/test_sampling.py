"""Samples of users: chosen by the name alone, nested, and of the requested size."""

from __future__ import annotations

import numpy as np
import pytest

from sim.storage.sampling import UserSample, in_sample, sample_key, sampled, snapshot_users

USERS = [f"user-{i}" for i in range(5000)]


def test_a_sample_does_not_depend_on_order_or_blocks() -> None:
    expected = set(sampled(USERS, 100))
    shuffled = list(np.random.default_rng(1).permutation(USERS))
    sample = UserSample(100)
    for start in range(0, len(shuffled), 70):
        sample.add(shuffled[start : start + 70])
        sample.add(shuffled[max(start - 5, 0) : start + 3])
    assert len(sample) == 100
    assert set(sample.of(USERS)) == expected == {user for user in USERS if user in sample}
    assert expected == set(sorted(USERS, key=sample_key)[:100])


def test_samples_are_nested() -> None:
    assert set(sampled(USERS, 50)) < set(sampled(USERS, 500))
    members = {user for user in USERS if in_sample(user, len(USERS), 200)}
    assert 140 < len(members) < 260
    assert set(sampled(USERS, 100)) < members


def test_a_small_population_is_its_own_sample() -> None:
    assert sampled(USERS[:20], 20) == USERS[:20]
    assert all(in_sample(user, 20, 20) for user in USERS[:20])
    with pytest.raises(ValueError, match="most"):
        UserSample(0)


def test_snapshots_of_large_grids_are_those_of_fewer_users() -> None:
    assert snapshot_users(100, 3) > 10_000
    assert snapshot_users(33_600, 4) * 33_600 * 4 <= 20_000_000
    assert snapshot_users(10**9, 4) == 1
