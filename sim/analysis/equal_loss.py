"""Curves of users, the quality losses that they share, and the error per km of loss, from blocks of users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from sim.analysis.curves import user_points
from sim.analysis.replication_effect import BATCH, WEIGHT, deviations, half_width
from sim.analysis.summary import preferred
from sim.analysis.user_blocks import UserBlocks
from sim.analysis.user_curves import AttackCurves, prior_errors, user_curves
from sim.interfaces import FloatArray


class CurveBlocks:
    """Curves of the mechanisms that have two losses for some user, by attack, from blocks of users."""

    def __init__(self, users: UserBlocks) -> None:
        self._users = users
        self._cache: dict[str, list[AttackCurves]] = {}
        present: dict[str, Counter[str]] = {}
        with_curve: set[tuple[str, str]] = set()
        for points in map(user_points, users if _may_have_curves(users.series) else ()):
            distinct = points.groupby(["attack", "lppm", "user"])["loss"].nunique()
            counts = distinct.groupby(["attack", "lppm"]).agg(["size", "max"]).reset_index()
            for attack, lppm, number, most in counts.itertuples(index=False, name=None):
                present.setdefault(attack, Counter())[lppm] += number
                if most > 1:
                    with_curve.add((attack, lppm))
        if not present:
            known = users.series[users.series["attack"] != ""]
            present = {str(attack): Counter() for attack in known["attack"]}
        order = [str(name) for name in dict.fromkeys(users.series["attack"])]
        self._counts = {
            attack: {lppm: n for lppm, n in sorted(present[attack].items()) if (attack, lppm) in with_curve}
            for attack in order
            if attack in present
        }

    @property
    def attacks(self) -> list[str]:
        """The attacks with an adversary error."""
        return list(self._counts)

    def lppms(self, attack: str) -> list[str]:
        """Return the mechanisms with curves."""
        return list(self._counts.get(attack, {}))

    def n_users(self, attack: str) -> int:
        """Return the largest number of users of a mechanism with curves; 0 without any."""
        return max(self._counts[attack].values(), default=0)

    def of(self, attack: str) -> Iterator[AttackCurves]:
        """Yield the curves by mechanism and user, block by block; those of a single block are cached."""
        if self._users.n_blocks == 1:
            if attack not in self._cache:
                self._cache[attack] = list(self._read(attack))
            return iter(self._cache[attack])
        return self._read(attack)

    def _read(self, attack: str) -> Iterator[AttackCurves]:
        for users in self._users:
            rows = users[users["attack"] == attack]
            yield AttackCurves(user_curves(rows, self.lppms(attack)), prior_errors(rows))


def _may_have_curves(series: pd.DataFrame) -> bool:
    """Return whether any mechanism has several sweep points."""
    return bool((series.groupby(["lppm", "attack"]).size() > 1).any()) if len(series) else False


def shared_losses(block: AttackCurves) -> dict[str, tuple[float, float]]:
    """Return the interval of losses up to P0 that a user attains with every mechanism, if it is not empty."""
    shared = {}
    for user in block.users:
        curves = [of_user[user] for of_user in block.curves.values()]
        low = max(float(curve.losses[0]) for curve in curves)
        high = min(float(np.fmin(block.priors.get(user, np.nan), curve.losses[-1])) for curve in curves)
        if low < high:
            shared[user] = (low, high)
    return shared


def lossy(curves: CurveBlocks, attack: str) -> list[str]:
    """Return the mechanisms with which at least half of the users lose more than P0 at every sweep point."""
    above, users = Counter[str](), 0
    for block in curves.of(attack):
        users += len(block.users)
        for lppm, of_user in block.curves.items():
            above[lppm] += sum(of_user[user].losses[0] > block.priors.get(user, np.nan) for user in block.users)
    return [lppm for lppm in curves.lppms(attack) if users and 2 * above[lppm] >= users]


def common_losses(curves: CurveBlocks, attack: str) -> list[float]:
    """Return candidates for a loss that most users attain with every mechanism; empty if fewer than half share one.

    Losses above a user's P0 do not count for the user. The first candidate is the multiple of 0.1 km that most users
    attain, of several the middle one, if there is any. The last is the middle between the largest lower and the
    smallest upper end.
    """
    if len(curves.lppms(attack)) < 2:
        return []
    users, reached = 0, Counter[int]()
    low = high = np.nan
    for block in curves.of(attack):
        shared = shared_losses(block)
        if not shared:
            continue
        lows, highs = np.array(list(shared.values())).T
        users, low, high = users + len(shared), np.fmax(low, lows.max()), np.fmin(high, highs.min())
        tenths = np.arange(np.ceil(lows.min() * 10), np.floor(highs.max() * 10) + 1)
        inside = (lows[:, None] <= _km(tenths)) & (_km(tenths) <= highs[:, None])
        reached.update(dict(zip(tenths.astype(int).tolist(), inside.sum(axis=0).tolist(), strict=True)))
    if 2 * users < curves.n_users(attack):
        return []
    most = max(reached.values(), default=0)
    best = sorted(tenth for tenth, count in reached.items() if count == most)
    return [*([float(_km(np.array(best[len(best) // 2])))] if most else []), float((low + high) / 2)]


def _km(tenths: FloatArray) -> FloatArray:
    return np.round(tenths / 10, 1)


class GainMoments:
    """Moments over users of the errors and losses of several mechanisms, of which the error per km of loss follows."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.users = 0
        """Number of users with all mechanisms."""
        size = 2 * len(names)
        self._means: FloatArray = np.zeros(size)
        self._products: FloatArray = np.zeros((size, size))
        self._batch_sums: FloatArray = np.zeros((0, size))
        """Sums over users of the deviations of each batch of replications, shape (n_batches, size)."""
        self._batch_products: FloatArray = np.zeros((size, size))

    def add(self, errors: pd.DataFrame, losses: pd.DataFrame, deviations: FloatArray) -> None:
        """Add the errors and losses of users (rows) by mechanism (columns).

        `deviations` are those of the users' batches of replications, errors before losses, shape (n_users, n_batches,
        2 * n_mechanisms).
        """
        values = np.hstack([errors[self.names].to_numpy(float), losses[self.names].to_numpy(float)])
        if not len(values):
            return
        means = values.mean(axis=0)
        apart, count = means - self._means, self.users + len(values)
        self._products += (values - means).T @ (values - means)
        self._products += np.outer(apart, apart) * (self.users * len(values) / count)
        self._means, self.users = self._means + apart * (len(values) / count), count
        missing = max(deviations.shape[1] - len(self._batch_sums), 0)
        self._batch_sums = np.pad(self._batch_sums, ((0, missing), (0, 0)))
        self._batch_sums[: deviations.shape[1]] += deviations.sum(axis=0)
        self._batch_products += np.einsum("ubi,ubj->ij", deviations, deviations)

    def gains(self) -> dict[str, float]:
        """Return the mean error divided by the mean loss of each mechanism."""
        errors, losses = np.split(self._means, 2)
        return dict(zip(self.names, (errors / losses).tolist(), strict=True))

    def half_widths(self, first: str) -> dict[str, float]:
        """Return the half-width of the 95 % interval of the lead of `first` over each mechanism.

        It is over users and replications (`sim.analysis.replication_effect`), by the delta method.
        """
        errors, losses = np.split(self._means, 2)
        # Row k has the coefficients of the residual (error - gain loss) / mean(loss) of mechanism k.
        residuals = np.hstack([np.diag(1 / losses), np.diag(-errors / losses**2)])
        apart = residuals[self.names.index(first)] - residuals
        users, batches = self.users, len(self._batch_sums)
        variance = _quadratic(apart, self._products) / max(users - 1, 1)
        between = ((apart @ self._batch_sums.T) ** 2).sum(axis=1) / max(users, 1)
        rest = np.maximum(_quadratic(apart, self._batch_products) - between, 0)
        more = max(batches - 1, 1)
        whole = (np.full(len(apart), float(number)) for number in (users, batches))
        halves = half_width(variance, next(whole), between / more, rest / (max(users - 1, 1) * more), next(whole))
        return dict(zip(self.names, halves.tolist(), strict=True))


def _quadratic(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return a M a' for each row a, without negative rounding errors."""
    squares: FloatArray = np.maximum(np.einsum("ij,jk,ik->i", rows, matrix, rows), 0)
    return squares


def gains_per_km(users: UserBlocks, lppms: set[str]) -> dict[str, GainMoments]:
    """Return the moments of the errors and losses of some mechanisms by attack.

    Mechanisms without a loss for some user are excluded, and users without a value for one of the others.
    """
    least: dict[tuple[str, str], float] = {}
    if users.series.loc[users.series["lppm"].isin(lppms), "lppm"].nunique() < 2:
        return {}
    for points, _ in _means_of(users, lppms):
        lowest = points["loss"].groupby(["attack", "lppm"]).min().reset_index()
        for attack, lppm, loss in lowest.itertuples(index=False, name=None):
            least[attack, lppm] = min(loss, least.get((attack, lppm), np.inf))
    names: dict[str, list[str]] = {}
    for (attack, lppm), loss in sorted(least.items()):
        names.setdefault(attack, [])
        if loss > 0:
            names[attack].append(lppm)
    gains = {attack: GainMoments(own) for attack, own in names.items()}
    for points, apart in _means_of(users, lppms):
        for attack, own in gains.items():
            if len(own.names) < 2 or attack not in points.index.get_level_values("attack"):
                continue
            table = points.xs(attack, level="attack").unstack("lppm")
            table = table.loc[:, table.columns.get_level_values("lppm").isin(own.names)].dropna()
            if set(own.names) <= set(table["error"].columns):
                moved: Any = apart.xs(attack, level="attack")
                own.add(table["error"], table["loss"], _of_batches(moved, list(table.index), own.names))
    return gains


def _of_batches(apart: pd.DataFrame, users: list[str], names: list[str]) -> FloatArray:
    """Return the deviations of users by batch and mechanism, errors before losses; 0 for a missing batch."""
    batches = apart.index.get_level_values(BATCH).unique()
    rows = pd.MultiIndex.from_product([users, batches], names=["user", BATCH])
    columns = pd.MultiIndex.from_product([["error", "loss"], names])
    wide: Any = apart.unstack("lppm")
    values: FloatArray = wide.reindex(index=rows, columns=columns).fillna(0.0).to_numpy(float)
    return values.reshape(len(users), len(batches), 2 * len(names))


def _means_of(users: UserBlocks, lppms: set[str]) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield the mean loss and error over sweep points by attack, LPPM and user, block by block.

    The second table has the deviations of each batch of replications from these means.
    """
    keys = ["attack", "lppm", "user"]
    for block in users:
        rows = block[block["lppm"].isin(lppms)]
        means = user_points(rows).groupby(keys)[["loss", "error"]].mean()
        table = rows[[*keys, "point", BATCH]].assign(
            **{WEIGHT: rows.get(WEIGHT, 1)},
            loss=preferred(rows, "quality_loss_km"),
            error=preferred(rows, "adversary_error_km"),
        )
        table = table.dropna().reset_index(drop=True)
        moved = deviations(table, ["attack", "lppm", "point"], ["loss", "error"]).assign(user=table["user"])
        n_points = table.groupby(keys)["point"].transform("nunique")
        moved[["loss", "error"]] = moved[["loss", "error"]].div(n_points, axis=0)
        yield means, moved.groupby([*keys, BATCH])[["loss", "error"]].sum()
