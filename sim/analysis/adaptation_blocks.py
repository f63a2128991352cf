"""Adaptation to a shift over blocks of users: comparisons paired by user, and moments merged between blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from sim.analysis.event_log import SERIES
from sim.analysis.moments import UNITS, Moments, RatioMoments, add_moments
from sim.analysis.recovery import Recovery
from sim.analysis.recovery_moments import RecoveryMoments
from sim.analysis.statistics import ENDS
from sim.analysis.user_samples import PointSamples, SampledRows
from sim.storage.errors import RequestError

COMPARED = ["efficiency_before", "efficiency_lowest", "efficiency_end", "queries_to_recover", "queries_lost"]
"""Per-user metrics that are compared between mechanisms."""

_PAIR = ["point", "attack", "lppm"]

Key = dict[str, Any]
PointsOf = Mapping[str, frozenset[int]]


def require_reference(lppms: Iterable[str], against: str) -> None:
    """Raise an error if the reference is not among the LPPMs."""
    names = list(dict.fromkeys(lppms))
    if against not in names:
        raise RequestError(f"no LPPM {against!r} to compare with; available: {', '.join(names)}", code="unknown-lppm")


def points_of(table: pd.DataFrame) -> PointsOf:
    """Return the sweep points of each LPPM in a table."""
    return {str(lppm): frozenset(points) for lppm, points in table.groupby("lppm")["point"]}


def paired_users(users: pd.DataFrame, against: str, points: PointsOf) -> Iterator[tuple[Key, pd.DataFrame]]:
    """Yield, by point, attack and LPPM, the metrics of each user next to those under the LPPM `against` (`_other`).

    `users` is the table `users` of an `Adaptation`, `points` has the sweep points of each LPPM.
    """
    theirs = users[users["lppm"] == against].drop(columns="lppm")
    # A reference that the sweep does not change was simulated at one point only.
    once = len(points[against]) == 1
    for (point, attack, lppm), own in users.groupby(_PAIR, sort=False):
        other = theirs.assign(point=own["point"].iloc[0]) if once else theirs
        both = own.merge(other, on=["point", "attack", "user"], suffixes=("", "_other"))
        yield {"point": point, "attack": attack, "lppm": lppm, "against": against}, both


def without_reference(table: pd.DataFrame, against: str) -> pd.DataFrame:
    """Return the rows of a comparison without those of the reference itself and those without users."""
    return table[(table["lppm"] != against) & (table["users"] > 0)].reset_index(drop=True)


class PairedMoments:
    """Moments over users of the differences between LPPMs."""

    def __init__(self, points: PointsOf) -> None:
        self._points = points
        self._differences: dict[str, Moments] = {}
        self._ratios: dict[tuple[Any, ...], RatioMoments] = {}

    def add(self, users: pd.DataFrame) -> None:
        """Add a block of users: a table `users` of an `Adaptation`."""
        for against in dict.fromkeys(users["lppm"]):
            frames = []
            for key, both in paired_users(users, against, self._points):
                columns = {name: both[name] - both[f"{name}_other"] for name in COMPARED}
                frames.append(pd.DataFrame(columns).assign(**{name: key[name] for name in _PAIR}))
                times = [both[[name]].to_numpy(float) for name in ("queries_to_recover", "queries_to_recover_other")]
                ratio, place = RatioMoments.of(*times), (against, *(key[name] for name in _PAIR))
                self._ratios[place] = self._ratios[place].merged(ratio) if place in self._ratios else ratio
            more = Moments.of(pd.concat(frames, ignore_index=True), _PAIR, COMPARED)
            self._differences[against] = add_moments(self._differences.get(against), more)

    def compared(self, against: str) -> pd.DataFrame:
        """Return the table of `Adaptation.compare`."""
        require_reference(self._differences, against)
        moments = self._differences[against]
        rows = []
        for number, limits in zip(moments.frame[UNITS], moments.intervals().to_dict("records"), strict=True):
            key = {name: limits.pop(name) for name in _PAIR}
            ratio = self._ratios[(against, *key.values())].intervals()
            row: dict[Any, Any] = {**key, "against": against, "users": number, **limits}
            row |= {f"recovery_ratio{end}": float(value[0]) for end, value in zip(ENDS, ratio, strict=True)}
            rows.append(row)
        return without_reference(pd.DataFrame(rows), against)


class AdaptedBlocks:
    """Adaptation over blocks of users; `series` has all points, LPPMs and attacks of the run.

    `step` is the largest number of queries that a row of the log summarizes.
    """

    def __init__(self, series: pd.DataFrame, step: int) -> None:
        self.step = step
        self.paired = PairedMoments(points_of(series))
        """Differences between LPPMs."""
        self._keys: dict[tuple[Any, ...], Key] = {}
        self._moments: dict[tuple[Any, ...], RecoveryMoments] = {}
        self._samples = PointSamples()
        self._users = SampledRows(self._samples)
        self._block: list[pd.DataFrame] = []

    def add(self, key: Key, recovery: Recovery) -> None:
        """Add the users of a block at one point, under one LPPM and attack."""
        place, own = tuple(key[name] for name in SERIES), RecoveryMoments.of(recovery)
        self._keys[place] = key
        self._moments[place] = self._moments[place].merged(own) if place in self._moments else own
        self._block.append(keyed_table(recovery.users, key))

    def end_block(self) -> None:
        """Reduce the users of the block."""
        if not self._block:
            return
        users = pd.concat(self._block, ignore_index=True)
        self._block = []
        self._samples.add(users)
        self._users.add(users)
        self.paired.add(users)

    def frames(self, recovered: float) -> list[dict[str, pd.DataFrame]]:
        """Return the tables of an `Adaptation` by point, LPPM and attack."""
        frames = []
        sampled = self._users.rows(*SERIES) if self._moments else pd.DataFrame()
        for place in sorted(self._moments):
            key, moments = self._keys[place], self._moments[place]
            tables = {
                "summary": moments.summary(recovered),
                "time_series": moments.time_series(),
                "user_time_series": moments.time_series_of_few(),
            }
            own = (sampled[list(SERIES)] == pd.Series(dict(zip(SERIES, place, strict=True)))).all(axis=1)
            frames.append({name: keyed_table(table, key) for name, table in tables.items()} | {"users": sampled[own]})
        return frames


def keyed_table(table: pd.DataFrame, key: Key) -> pd.DataFrame:
    """Return a table with the columns of a key in front."""
    return table.assign(**key)[[*key, *table.columns]]
