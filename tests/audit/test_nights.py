"""Users without positions at night are counted and stated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sim.analysis.answers.home_exposure import Night
from sim.audit.displacement import Sample
from sim.audit.matching import Matching
from sim.audit.nights import no_nights_note, users_without_nights
from sim.audit.pairs import Pairs


def _pairs(hours: list[list[float]]) -> Pairs:
    user = np.repeat(np.arange(len(hours)), [len(own) for own in hours])
    times = 3600 * np.concatenate([np.array(own) for own in hours])
    at = np.zeros(user.size)
    names = tuple(str(number) for number in range(len(hours)))
    return Pairs(Sample(user, times, at, at, at, at), names, True, Matching(0, 0, 0, 0, 0, 0))


def test_users_without_positions_at_night_are_counted() -> None:
    pairs = _pairs([[8, 12, 30], [8, 9, 20], [12]])  # the first user has a position at 6 h of the second day
    assert users_without_nights(pairs, Night()) == 3
    assert users_without_nights(pairs, Night(22, 7)) == 2
    assert users_without_nights(pairs, Night(utc_offset_h=2)) == 2  # 20 h is 22 h
    assert "3 of 3 users" in no_nights_note(pairs, Night())
    assert no_nights_note(_pairs([[0], [23]]), Night()) == ""


def test_rows_without_times_have_no_nights() -> None:
    assert users_without_nights(replace(_pairs([[12]]), timed=False), Night()) == 0
