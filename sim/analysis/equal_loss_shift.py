"""Sums around a shift at equal quality loss before it, interpolated between the sweep points of each mechanism.

A user's budget is spent before anybody knows of the shift. Mechanisms are therefore compared at an equal loss over the
queries before it; the loss after it is a result. Each user's sweep points with a mechanism are sorted by their loss
before the shift. If Q lies between the losses of two points, with t = (Q - l_i) / (l_j - l_i) the user's errors and
losses of all queries are (1 - t) times those of point i plus t times those of point j. These are the expected ones of a
mechanism that uses point j with probability t, drawn once per user, so that all metrics of `sim.analysis.recovery` are
those of a mechanism that exists. Nothing is extrapolated: outside the range, a user has the values of the nearer end.

Compared are the users whose P0 before the shift is at least Q: the smallest error of a constant guess of their cells
before the shift. This depends neither on mechanisms nor on noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from sim.analysis.shift_sums import AddedMetrics, ShiftSums
from sim.analysis.sweep_labels import with_distinct_names
from sim.analysis.user_curves import AT_LARGEST, AT_SMALLEST, ON_CURVE, SAME_LOSS_KM
from sim.interfaces import FloatArray
from sim.simulation.prior_error import smallest_prior_error_km
from sim.storage.errors import ChoiceNotApplicable
from sim.storage.run_directory import RunDirectory
from sim.world.distance import Distance

Series = tuple[str, str]
"""Name of a mechanism and of an attack."""


class EqualLossShift:
    """Interpolation of the sums of all sweep points at an equal loss before the shift, block by block of users."""

    def __init__(self, run: RunDirectory, loss_km: float, before: int) -> None:
        if not loss_km > 0:
            raise ValueError(f"at_km must be in (0, inf), got {loss_km}")
        self._points = run.read_csv("points.csv")
        outside = [path for path in self._points.columns.drop("point") if not path.startswith("lppms.")]
        if outside:
            raise ChoiceNotApplicable(
                f"{run} sweeps {', '.join(outside)}: an equal loss is interpolated between values swept for the "
                "mechanisms (lppms.*) only. Run each of the other values alone.",
                code="swept-outside-mechanisms",
            )
        self.loss_km, self._before = loss_km, before
        self._distance = run.manifest().scenario.build_world().privacy_distance
        self.excluded = 0
        """Number of users whose P0 before the shift is below the loss."""
        self._ends: dict[Series, Counter[int]] = {}

    def mixed(self, sums: Mapping[int, ShiftSums]) -> dict[Series, AddedMetrics]:
        """Return the sums of each mechanism under each attack at the loss, from the sums of each sweep point."""
        series = self._by_name(sums)
        if not series:
            return {}
        names = (added.rows.keys() for adds in series.values() for added in adds[:1])
        complete = sorted(set.intersection(*map(set, names)))
        users = [
            user for user in complete if _prior_error_km(sums, user, self._distance) >= self.loss_km - SAME_LOSS_KM
        ]
        self.excluded += len(complete) - len(users)
        mixed = {}
        for key, adds in series.items():
            mixed[key], places = _at_loss(adds, users, self.loss_km, self._before)
            self._ends.setdefault(key, Counter()).update(places)
        return mixed

    def _by_name(self, sums: Mapping[int, ShiftSums]) -> dict[Series, list[AddedMetrics]]:
        """Return the sums of the points of each mechanism and attack; mechanisms have distinct names."""
        keys = [(lppm, point, attack) for point, own in sorted(sums.items()) for lppm, attack in sorted(own.series)]
        named = with_distinct_names(pd.DataFrame(keys, columns=["lppm", "point", "attack"]), self._points)["lppm"]
        series: dict[Series, list[AddedMetrics]] = {}
        for name, (lppm, point, attack) in zip(named, keys, strict=True):
            series.setdefault((name, attack), []).append(sums[point].series[lppm, attack])
        return series

    def with_counts(self, summary: pd.DataFrame) -> pd.DataFrame:
        """Return a summary with the numbers of excluded users and of those at the ends of their curves."""
        ends = [self._ends[key] for key in zip(summary["lppm"], summary["attack"], strict=True)]
        largest, smallest = ([own[end] for own in ends] for end in (AT_LARGEST, AT_SMALLEST))
        return summary.assign(excluded=self.excluded, at_largest=largest, at_smallest=smallest)


def _prior_error_km(sums: Mapping[int, ShiftSums], user: str, distance: Distance) -> float:
    """Return the smallest error of a constant guess over a user's queries before the shift; 0 without any."""
    counts = next((own.cells_before[user] for _, own in sorted(sums.items()) if user in own.cells_before), None)
    if counts is None:
        return 0.0
    return smallest_prior_error_km(np.repeat(list(counts), list(counts.values())), distance)


def _at_loss(
    adds: Sequence[AddedMetrics], users: Sequence[str], loss_km: float, before: int
) -> tuple[AddedMetrics, list[int]]:
    """Return the sums of each user at a loss, and their places on the user's curve."""
    width = max(own.sums.shape[2] for own in adds)
    mixed = AddedMetrics()
    mixed.rows = {user: row for row, user in enumerate(users)}
    mixed.sums = np.zeros((3, len(users), width))
    places = []
    for row, user in enumerate(users):
        own = np.stack([_per_replication(added, user, width) for added in adds if user in added.rows])
        mixed.sums[:, row], place = _interpolated(own, loss_km, before)
        places.append(place)
    return mixed, places


def _per_replication(added: AddedMetrics, user: str, width: int) -> FloatArray:
    """Return the sums of a user divided by the number of replications, which may differ between points."""
    sums = added.sums[:, added.rows[user]]
    return np.pad(sums / max(sums[2].max(), 1.0), ((0, 0), (0, width - sums.shape[1])))


def _interpolated(sums: FloatArray, loss_km: float, before: int) -> tuple[FloatArray, int]:
    """Return the sums of a user at a loss, and whether they are on the curve or at an end.

    `sums` has those of each sweep point, shape (n_points, 3, queries).
    """
    _, lost, count = sums[:, :, :before].sum(axis=2).T
    losses = lost / np.maximum(count, 1.0)
    order = np.argsort(losses, kind="stable")
    sums, losses = sums[order], losses[order]
    if loss_km > losses[-1] + SAME_LOSS_KM:
        return sums[-1], AT_LARGEST
    if loss_km < losses[0] - SAME_LOSS_KM:
        return sums[0], AT_SMALLEST
    upper = min(int(np.searchsorted(losses, loss_km)), len(losses) - 1)
    if upper == 0:
        return sums[0], ON_CURVE
    width = losses[upper] - losses[upper - 1]
    share = min((loss_km - losses[upper - 1]) / width, 1.0) if width > 0 else 1.0
    return (1 - share) * sums[upper - 1] + share * sums[upper], ON_CURVE
