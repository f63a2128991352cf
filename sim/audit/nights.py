"""Users without positions at night, whose home is their most frequent place."""

from __future__ import annotations

import numpy as np

from sim.analysis.answers.home_exposure import Night
from sim.audit.pairs import Pairs


def users_without_nights(pairs: Pairs, night: Night) -> int:
    """Return the number of users without a true position at night; 0 if the pairs have no times."""
    if not pairs.timed:
        return 0
    at_night = night.contains(np.floor(pairs.sample.time_s).astype(np.int64))
    users = np.unique(pairs.sample.user)
    return int(users.size - np.unique(pairs.sample.user[at_night]).size)


def no_nights_note(pairs: Pairs, night: Night) -> str:
    """Return the number of users whose home is not known from nights; empty if there are none."""
    count, users = users_without_nights(pairs, night), np.unique(pairs.sample.user).size
    if count == 0:
        return ""
    return (
        f"{count:,} of {users:,} users have no positions at night ({night.from_h:g} to {night.until_h:g} h at UTC"
        f"{night.utc_offset_h:+g}): their most frequent place at any hour is used as the home, which may be another "
        "place."
    )
