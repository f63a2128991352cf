"""Closed roads in whole lives."""

from __future__ import annotations

import numpy as np

from tests.simulation.shifts.lives import (
    Build,
    after,
)


def test_users_avoid_closed_roads(population: Build) -> None:
    cells = [27, 28, 35, 36]
    spec = {"kind": "close_roads", "at_day": 0.3, "cells": cells}
    for who in ("taxis", "replay"):
        base, shifted = population(who).lives, population(who, spec).lives
        through = [
            sum(np.isin(after(lives[user], shifted[user].shifts[0].index), cells).sum() for user in lives)
            for lives in (base, shifted)
        ]
        assert through[1] < through[0]


def test_roads_reopen(population: Build) -> None:
    spec = {"kind": "close_roads", "at_day": 0.2, "share": 0.5, "for_days": 0.3}
    base, shifted = population("replay").lives, population("replay", spec).lives
    for user, life in shifted.items():
        begins, ends = life.shifts
        assert ends.ends
        last = life.test.times_s.searchsorted(life.test.times_s[ends.index - 1] + 7200)
        assert life.test.cells[last:].tolist() == base[user].test.cells[last:].tolist()
        assert life.borders == (begins.index, ends.index)
