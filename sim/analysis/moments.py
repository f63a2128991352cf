"""Moments over users that can be merged between blocks of users, and their confidence intervals.

Counts, means and variances are merged by the formulas of Chan, Golub & LeVeque (1983), which are stable. The moments of
a single block are those of pandas, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from sim.analysis.replication_effect import BATCH, CONFIDENCE, ReplicationMoments
from sim.interfaces import FloatArray, IntArray

UNITS = "units"
"""Column of the number of units in a group."""


def half_width(deviation: pd.Series[float], count: pd.Series[int]) -> pd.Series[float]:
    """Return the half-width of the 95 % t-interval of a mean, t(0.975; n - 1) s / sqrt(n); NaN if n < 2.

    >>> half_width(pd.Series([1.0, 1.0]), pd.Series([2, 9])).round(3).tolist()
    [8.985, 0.769]
    """
    number = count.to_numpy()
    quantile = stdtrit(np.maximum(number - 1, 1), (1 + CONFIDENCE) / 2)
    half = deviation.to_numpy() * quantile / np.sqrt(np.maximum(number, 1))
    return pd.Series(np.where(number > 1, half, np.nan), index=count.index)


def merge_columns(ours: pd.DataFrame, theirs: pd.DataFrame, name: str) -> dict[str, pd.Series[Any]]:
    """Return the columns `name` (mean), `_count` and `_variance` of the units of both frames, which have equal indices.

    A frame without units of a group has NaN in its row.
    """
    n, m = (frame[f"{name}_count"].fillna(0) for frame in (ours, theirs))
    both, count = (n > 0) & (m > 0), n + m
    with np.errstate(invalid="ignore"):
        apart = theirs[name] - ours[name]
        squares = ours[f"{name}_variance"].fillna(0) * (n - 1) + theirs[f"{name}_variance"].fillna(0) * (m - 1)
        pooled = ours[name] + apart * (m / count)
        # Infinite values, such as epsilons, have an infinite mean and no variance.
        pooled = pooled.where(np.isfinite(apart), ours[name] + theirs[name])
        variance = (squares + apart**2 * (n * m / count)) / (count - 1)
    return {
        name: pooled.where(both, ours[name].fillna(theirs[name])),
        f"{name}_count": count.astype(np.int64),
        f"{name}_variance": variance.where(both, ours[f"{name}_variance"].fillna(theirs[f"{name}_variance"])),
    }


@dataclass(frozen=True, slots=True)
class Moments:
    """Counts, means and variances of some columns over the units (users) of each group."""

    frame: pd.DataFrame
    """One row per group, indexed by `keys`. Columns: `units`, the sums, the maxima, and for each name the mean, the
    count (`_count`) and the variance (`_variance`)."""
    keys: tuple[str, ...]
    names: tuple[str, ...]
    sums: tuple[str, ...] = ()
    maxima: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        units: pd.DataFrame,
        keys: Sequence[str],
        names: Sequence[str],
        *,
        sums: Sequence[str] = (),
        maxima: Sequence[str] = (),
    ) -> Moments:
        """Return the moments of the columns `names`; NaN are excluded. `units` has one row per unit of a group."""
        groups = units.groupby(list(keys), sort=True)
        own = groups[list(names)]
        means, variances, counts = own.mean(), own.var(ddof=1), own.count()
        columns: dict[str, Any] = {UNITS: groups.size()}
        columns |= {name: groups[name].sum() for name in sums} | {name: groups[name].max() for name in maxima}
        for name in names:
            columns |= {name: means[name], f"{name}_count": counts[name], f"{name}_variance": variances[name]}
        return cls(pd.DataFrame(columns), tuple(keys), tuple(names), tuple(sums), tuple(maxima))

    def merged(self, other: Moments) -> Moments:
        """Return the moments over the units of both, which have no unit in common."""
        index = self.frame.index.union(other.frame.index)
        ours, theirs = self.frame.reindex(index), other.frame.reindex(index)
        columns: dict[str, Any] = {
            name: (ours[name].fillna(0) + theirs[name].fillna(0)).astype(self.frame[name].dtype)
            for name in (UNITS, *self.sums)
        }
        columns |= {name: np.fmax(ours[name], theirs[name]) for name in self.maxima}
        for name in self.names:
            columns |= merge_columns(ours, theirs, name)
        return Moments(pd.DataFrame(columns), self.keys, self.names, self.sums, self.maxima)

    def intervals(
        self, names: Sequence[str] | None = None, *, replications: ReplicationMoments | None = None
    ) -> pd.DataFrame:
        """Return a row per group: each mean with the limits `_low` and `_high` of its 95 % confidence interval.

        The limits are the mean -+ `half_width` (Student's t), NaN for fewer than two units. With the moments of the
        replications of users, the interval is over both (`sim.analysis.replication_effect`).
        """
        names = self.names if names is None else names
        columns: dict[str, pd.Series[float]] = {}
        crossed = None if replications is None else self._half_widths(names, replications)
        for name in names:
            mean = self.frame[name]
            half = half_width(np.sqrt(self.frame[f"{name}_variance"]), self.frame[f"{name}_count"])
            half = half if crossed is None else crossed[name].fillna(half)
            columns |= {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}
        return pd.DataFrame(columns, index=self.frame.index).reset_index()

    def _half_widths(self, names: Sequence[str], replications: ReplicationMoments) -> pd.DataFrame:
        variances, counts = (
            self.frame[[f"{name}{end}" for name in names]].set_axis(list(names), axis=1)
            for end in ("_variance", "_count")
        )
        return replications.half_widths(variances, counts)

    def counts(self, units: str, *sums: str) -> pd.DataFrame:
        """Return a row per group: the number of units in the column `units`, and some of the sums."""
        return self.frame[[UNITS, *sums]].rename(columns={UNITS: units}).reset_index()


def add_moments(total: Moments | None, more: Moments) -> Moments:
    """Return the moments of `more`, merged with those so far, if any."""
    return more if total is None else total.merged(more)


_VALUE, _COLUMN = "value", "column"


@dataclass(frozen=True, slots=True)
class ColumnMoments:
    """Counts, means, variances and extremes of the columns of a table of users."""

    frame: pd.DataFrame
    """One row per column of the table. Columns: value (the mean), value_count, value_variance, min, max."""
    replications: ReplicationMoments | None = None
    """Moments of the replications of the users, for intervals over both."""

    @classmethod
    def of(cls, values: pd.DataFrame, deviations: pd.DataFrame | None = None) -> ColumnMoments:
        """Return the moments of each column; NaN are excluded.

        `deviations` has the deviations of each user's batches of replications, with the same columns and an index whose
        level `BATCH` is the batch.
        """
        columns = {_VALUE: values.mean(), f"{_VALUE}_count": values.count(), f"{_VALUE}_variance": values.var(ddof=1)}
        frame = pd.DataFrame({**columns, "min": values.min(), "max": values.max()})
        if deviations is None:
            return cls(frame)
        long = pd.DataFrame(
            {
                _COLUMN: np.repeat(values.columns.astype(str), len(deviations)),
                BATCH: np.tile(deviations.index.get_level_values(BATCH), len(values.columns)),
                _VALUE: deviations[list(values.columns)].to_numpy(float).T.ravel(),
            }
        )
        return cls(frame, ReplicationMoments.of(long, [_COLUMN], [_VALUE]))

    def merged(self, other: ColumnMoments) -> ColumnMoments:
        """Return the moments over the users of both tables, which have the same columns."""
        ours, theirs = self.frame, other.frame.loc[self.frame.index]
        ends = {"min": np.fmin(ours["min"], theirs["min"]), "max": np.fmax(ours["max"], theirs["max"])}
        joined = pd.DataFrame({**merge_columns(ours, theirs, _VALUE), **ends})
        if self.replications is None or other.replications is None:
            return ColumnMoments(joined)
        return ColumnMoments(joined, self.replications.merged(other.replications))

    @property
    def means(self) -> dict[str, float]:
        """The mean of each column."""
        return {str(name): float(mean) for name, mean in self.frame[_VALUE].items()}

    @property
    def halves(self) -> dict[str, float]:
        """The half-width of the 95 % interval of each mean."""
        error, freedom = self._standard_errors()
        halves = error * stdtrit(freedom, (1 + CONFIDENCE) / 2)
        return {str(name): float(half) for name, half in halves.items()}

    @property
    def p_values(self) -> dict[str, float]:
        """Two-sided p-value of Student's t for each mean being zero, with the standard error of `halves`."""
        error, freedom = self._standard_errors()
        with np.errstate(divide="ignore", invalid="ignore"):
            tails = 2 * stdtr(freedom, -np.abs(self.frame[_VALUE] / error))
        return {str(name): float(tail) for name, tail in tails.items()}

    def _standard_errors(self) -> tuple[pd.Series[float], pd.Series[float]]:
        """Return the standard error of each mean and its degrees of freedom; NaN for fewer than two users."""
        count = self.frame[f"{_VALUE}_count"]
        freedom = (count - 1.0).where(count > 1)
        error: pd.Series[float] = (self.frame[f"{_VALUE}_variance"] / count.clip(lower=1)).where(count > 1) ** 0.5
        if self.replications is not None:
            squares, counts = (
                self.frame[[f"{_VALUE}_{end}"]].set_axis([_VALUE], axis=1) for end in ("variance", "count")
            )
            crossed = [own[_VALUE] for own in self.replications.standard_errors(squares, counts)]
            freedom, error = crossed[1].where(crossed[0].notna(), freedom), crossed[0].fillna(error)
        return error, freedom

    def extremes(self, name: str) -> tuple[float, float]:
        """Return the smallest and the largest value of a column."""
        return float(self.frame["min"][name]), float(self.frame["max"][name])


@dataclass(frozen=True, slots=True)
class RatioMoments:
    """Moments of pairs (numerator, denominator) over units, by column; from these follow the ratio and its interval."""

    count: IntArray
    means: FloatArray
    """Means of numerator and denominator, shape (2, n)."""
    squares: FloatArray
    """Sums of squared deviations of numerator and denominator, and of their products, shape (3, n)."""

    @classmethod
    def of(cls, over: FloatArray, under: FloatArray) -> RatioMoments:
        """Return the moments of each column of two arrays (units, n); a NaN in either excludes the pair."""
        known = ~(np.isnan(over) | np.isnan(under))
        count: IntArray = known.sum(axis=0)
        values = np.stack([np.where(known, over, 0.0), np.where(known, under, 0.0)])
        means = values.sum(axis=1) / np.maximum(count, 1)
        above, below = np.where(known, values - means[:, None], 0.0)
        squares = np.stack([(above**2).sum(axis=0), (below**2).sum(axis=0), (above * below).sum(axis=0)])
        return cls(count, means, squares)

    def merged(self, other: RatioMoments) -> RatioMoments:
        """Return the moments over the units of both, which have no unit in common."""
        count = self.count + other.count
        weight = other.count / np.maximum(count, 1)
        apart = other.means - self.means
        cross = np.stack([apart[0] ** 2, apart[1] ** 2, apart[0] * apart[1]])
        squares = self.squares + other.squares + cross * (self.count * weight)
        return RatioMoments(count, self.means + apart * weight, squares)

    def padded(self, n: int) -> RatioMoments:
        """Return the moments with `n` columns, the new ones without units."""
        more = n - len(self.count)
        return RatioMoments(*(np.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, more)]) for part in self._parts()))

    def take(self, columns: Any) -> RatioMoments:
        """Return some of the columns."""
        return RatioMoments(*(part[..., columns] for part in self._parts()))

    def _parts(self) -> tuple[Any, Any, Any]:
        return self.count, self.means, self.squares

    def intervals(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the ratio of the means and the limits of its 95 % interval, as `statistics.ratio_of_means` does."""
        over, under = self.means
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = over / under
            ratio[~np.isfinite(ratio)] = np.nan
            residuals = self.squares[0] - 2 * ratio * self.squares[2] + ratio**2 * self.squares[1]
            deviation = np.sqrt(np.maximum(residuals, 0) / np.maximum(self.count - 1, 1)) / np.abs(under)
        half = half_width(pd.Series(deviation), pd.Series(self.count)).to_numpy(dtype=float)
        return ratio, ratio - half, ratio + half
