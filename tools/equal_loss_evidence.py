"""Mechanisms with one loss next to mechanisms with a sweep at the same loss, from the log of a finished run.

Mechanisms with a single loss are those of phones and apps; mechanisms with a sweep are read off at the loss of each of
them. Errors are interpolated by user, shares and homes over the mean losses of the sweep points.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

import sim
from sim.analysis.answers.excess_risk import wilson
from sim.analysis.answers.questions import HOME, LOCATED, PLACES
from sim.analysis.curves import curve_of_user, user_points
from sim.analysis.statistics import mean_interval
from sim.analysis.user_curves import prior_errors
from sim.interfaces import FloatArray

RADIUS_KM = 0.564
OURS = "PEB-SPMK-AMix"
ROUTINE, STRANGER = "routine", "stranger"
ADVERSARIES: dict[str, tuple[str, ...]] = {
    ROUTINE: ("markov", "sporadic", "habits"),
    STRANGER: ("stranger", "home", "learner"),
}
"""Attacks of each adversary; the strongest of those of a run counts, for each mechanism and metric."""
SERIES = ["lppm", "point"]
ENDS = ("", "_low", "_high")

Target = Literal["home", "place", ""]
"""Target of the adversary: the home, by day; the most visited place, of visits without times; or nothing."""


class Evidence:
    """The answers and errors of a finished run."""

    def __init__(self, result: sim.Result) -> None:
        if not result.manifest.finished:
            raise SystemExit(f"{result.run} is not finished: continue the run before its tables are made")
        answers = result.answers(radii_km=[RADIUS_KM], places=[1])
        rows = pd.concat(list(result.comparable_users()))
        order = {lppm.name: number for number, lppm in enumerate(result.manifest.scenario.lppms)}
        self.points = user_points(rows)
        self.users = self.points["user"].nunique()
        self.losses = self.points.groupby(SERIES)["loss"].mean()
        self.shares = {name: answers.table[answers.table["question"] == name] for name in (LOCATED, PLACES)}
        self.homes = answers.home_exposure
        self.last_day = int(answers.table.loc[answers.table["question"] == HOME, "day"].max()) if len(self.homes) else 0
        by_attack = {str(name): prior_errors(own) for name, own in rows.groupby("attack")}
        self.prior_errors_km = {name: float(np.mean(list(own.values()))) for name, own in by_attack.items()}
        counts = self.losses.groupby("lppm").size()
        self.fixed = sorted(counts.index[counts == 1], key=order.__getitem__)
        self.swept = sorted(counts.index[counts > 1], key=order.__getitem__)

    def compared(self, adversary: str, target: Target = "", ours: str = OURS) -> pd.DataFrame:
        """Return a row for each fixed mechanism, with the values of a swept one at the same loss.

        Columns: `loss_km`, `outside` (the number of users for whom the sweep does not reach the loss), `error_km`,
        `difference_km` (swept minus fixed), `located`, and with a target the share of users whose target is known in
        the end (`found`), for homes also `median_days`. Differences and shares have intervals (`_low`, `_high`). The
        prefix `our_` is for the swept mechanism, NaN if its sweep does not reach the loss of at least half of the
        users, `control_` for a guess without any report.
        """
        return pd.DataFrame([self._row(adversary, name, target, ours) for name in self.fixed]).set_index("lppm")

    def _row(self, adversary: str, fixed: str, target: Target, ours: str) -> dict[str, Any]:
        own, theirs = (strongest(self._points(adversary, name)) for name in (fixed, ours))
        errors = paired_errors(own, theirs)
        loss = float(self.losses[fixed].iloc[0])
        row: dict[str, Any] = {"lppm": fixed, "loss_km": loss, "outside": int(errors["outside"].sum())}
        row |= {"users": len(errors), "error_km": errors["own"].mean(), "our_error_km": errors["ours"].mean()}
        row |= mean_interval(errors["ours"] - errors["own"], "difference_km")
        for prefix, name in (("", fixed), ("our_", ours)):
            located = at_loss(loss, *self._shares(LOCATED, adversary, name))
            row |= {f"{prefix}located{end}": float(located[i]) for i, end in enumerate(ENDS)}
            row |= {f"{prefix}{key}": value for key, value in self._found(target, loss, adversary, name).items()}
        if 2 * row["outside"] >= row["users"]:
            row |= {column: np.nan for column in row if column.startswith(("our_", "difference_"))}
        return row | self._controls(adversary, target)

    def _found(self, target: Target, loss: float, adversary: str, name: str) -> dict[str, float]:
        """Return the share of users whose home or place is known in the end, with an interval, and the median day."""
        if target == "home":
            known = at_loss(loss, *self._curves(adversary, name))
            share = {f"found{end}": float(known[-1, i]) for i, end in enumerate(ENDS)}
            return share | {"median_days": median_day(known[:, 0])}
        if target == "place":
            users_found = self.users * float(at_loss(loss, *self._shares(PLACES, adversary, name))[0])
            rates = wilson(users_found, self.users)
            return {f"found{end}": value for end, value in zip(ENDS, rates, strict=True)}
        return {}

    def _points(self, adversary: str, name: str) -> pd.DataFrame:
        rows = self.points[self.points["lppm"] == name]
        return rows[rows["attack"].isin(ADVERSARIES[adversary])]

    def _shares(self, question: str, adversary: str, name: str) -> tuple[FloatArray, FloatArray]:
        """Return the losses of the sweep points, ascending, and the largest share of the attacks, (n_points, 3).

        The second axis has the share and the limits of its interval.
        """
        rows = self.shares[question]
        rows = rows[(rows["lppm"] == name) & rows["attack"].isin(ADVERSARIES[adversary])]
        best = rows.loc[rows.groupby("point")["share"].idxmax()].set_index("point")
        losses = self.losses[name].loc[best.index].sort_values()
        return losses.to_numpy(float), best.loc[losses.index, [f"share{end}" for end in ENDS]].to_numpy(float)

    def _curves(self, adversary: str, name: str) -> tuple[FloatArray, FloatArray]:
        """Return the losses of the sweep points, ascending, and the homes known by day, shape (n_points, n_days, 3).

        The last axis has the share and the limits of its interval. Of several attacks, the one that knows most homes
        on average over the days counts.
        """
        rows = self.homes[(self.homes["lppm"] == name) & self.homes["attack"].isin(ADVERSARIES[adversary])]
        losses = self.losses[name].sort_values()
        curves = [
            max(
                (daily(own, self.last_day) for _, own in rows[rows["point"] == point].groupby("attack")),
                key=lambda known: float(known[:, 0].mean()),
            )
            for point in losses.index
        ]
        return losses.to_numpy(float), np.array(curves)

    def _controls(self, adversary: str, target: Target) -> dict[str, float]:
        tables = {"located": self.shares[LOCATED]}
        if target:
            tables["found"] = self.homes if target == "home" else self.shares[PLACES]
        attacks = ADVERSARIES[adversary]
        controls = {name: float(rows[rows["attack"].isin(attacks)]["control"].max()) for name, rows in tables.items()}
        controls["error_km"] = min(self.prior_errors_km[name] for name in attacks if name in self.prior_errors_km)
        return {f"control_{name}": value for name, value in controls.items()}


def strongest(points: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the attack with the smallest mean error, for each point of one mechanism."""
    means = points.groupby(["point", "attack"])["error"].mean()
    best = means.groupby("point").idxmin()
    return points[pd.MultiIndex.from_frame(points[["point", "attack"]]).isin(list(best))]


def paired_errors(own: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Return each user's error with a fixed mechanism (`own`), and that of a swept one at the user's loss (`ours`).

    Outside the curve of a user the nearer end counts, and `outside` is true.
    """
    curves = {user: curve_of_user(rows) for user, rows in ours.groupby("user")}
    rows = []
    for user, loss, error in own[["user", "loss", "error"]].itertuples(index=False):
        losses, errors = curves[user]
        outside = not losses[0] <= loss <= losses[-1]
        rows.append({"user": user, "own": error, "ours": np.interp(loss, losses, errors), "outside": outside})
    return pd.DataFrame(rows).set_index("user")


def daily(rows: pd.DataFrame, last_day: int) -> FloatArray:
    """Return the share of homes known at the end of days 1 to `last_day`, and its limits, shape (n_days, 3).

    `rows` are steps: their values hold from their day on.
    """
    steps = rows.sort_values("day")
    last = np.searchsorted(steps["day"].to_numpy(float), np.arange(1, last_day + 1), side="right") - 1
    values: FloatArray = steps[["known", "known_low", "known_high"]].to_numpy(float)[last]
    return values


def at_loss(loss: float, losses: FloatArray, values: FloatArray) -> FloatArray:
    """Return values of any shape at a loss, interpolated along the first axis; the nearer end outside.

    >>> at_loss(1.5, np.array([1.0, 2.0]), np.array([[1.0, 1.0], [0.0, 0.5]])).tolist()
    [0.5, 0.75]
    """
    columns = values.reshape(len(losses), -1).T
    return np.array([np.interp(loss, losses, column) for column in columns]).reshape(values.shape[1:])


def median_day(known: FloatArray) -> float:
    """Return the first day on which half of the homes are known; infinite if none.

    >>> median_day(np.array([0.1, 0.5, 0.7])), median_day(np.array([0.1]))
    (2.0, inf)
    """
    reached = np.flatnonzero(known >= 0.5 - 1e-9)
    return float(reached[0] + 1) if len(reached) else np.inf
