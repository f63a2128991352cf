"""Smoothing error: P_AE(r, s) of Oya et al. 2019, the error of the estimate of query s after report r > s."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.event_log import SERIES, LogPart, log_parts
from sim.analysis.moments import Moments
from sim.attack.bayesian import BayesianParameters
from sim.scenario.models import Scenario
from sim.storage.run_directory import RunDirectory

FINAL = "final"
COLUMNS = ["adversary_error_km", "online_error_km", "gain_km"]
_USER = [*SERIES, "lag", "user"]
_SIMULATION = [*SERIES, "replication", "user"]
_NEEDED = [*_SIMULATION, "index", "estimated_index", "adversary_error_km"]
_SUMS = ["guesses", *COLUMNS[:2]]


def smoothing_errors(run: RunDirectory) -> pd.DataFrame:
    """Return the mean error of revised estimates of past queries, by lag.

    One row per point, LPPM, attack and `lag` r - s (as text); the lag `final` stands for the estimates of all past
    queries after a user's last report. `adversary_error_km` is the error of the revised estimates, `online_error_km`
    that of the online estimates of the same queries, and `gain_km` the reduction online - revised. Means are first
    over each user's queries, then over users; `_low` and `_high` are the limits of 95 % intervals over users.
    Other columns: users, guesses (number of revised estimates). A log without revised estimates gives no rows.
    """
    return errors_over_users(smoothing_moments(of_users(run)))


def smoothing_moments(users: pd.DataFrame) -> Moments | None:
    """Return the moments over users of a table of `of_users`; None if it is empty."""
    return None if users.empty else Moments.of(users, [*SERIES, "lag"], COLUMNS, sums=["guesses"])


class SmoothingErrorCollector:
    """Collector of the errors of revised estimates, summed by user and lag.

    Memory grows with the number of (point, LPPM, attack, lag, user).
    """

    def __init__(self, scenario: Scenario) -> None:
        self._requested = _requested_lags(scenario)
        self._sums: pd.DataFrame | None = None

    def add(self, part: LogPart) -> None:
        """Add a part of the log."""
        indices = part.rows(["index", "estimated_index"])
        if pc.any(pc.less(indices["estimated_index"], indices["index"])).as_py():
            own = _summed(part.rows(_NEEDED), self._requested)
            before = self._sums
            self._sums = own if before is None else pd.concat([before, own]).groupby(_USER, as_index=False)[_SUMS].sum()

    def of_users(self) -> pd.DataFrame:
        """Return the table of `of_users`."""
        sums = self._sums
        if sums is None:
            return pd.DataFrame(columns=[*_USER, "guesses", *COLUMNS])
        own = sums.assign(**{name: sums[name] / sums["guesses"] for name in COLUMNS[:2]})
        return own.assign(gain_km=own["online_error_km"] - own["adversary_error_km"])


def of_users(run: RunDirectory) -> pd.DataFrame:
    """Return the smoothing errors of each user: one row per point, LPPM, attack, lag and user.

    Columns besides these: guesses and `COLUMNS`.
    """
    collector = SmoothingErrorCollector(run.manifest().scenario)
    for part in log_parts(run):
        collector.add(part)
    return collector.of_users()


RequestedLags = dict[str, tuple[frozenset[int], bool]]
"""Lags at which each attack revises its estimates, and whether it makes final estimates."""


def _requested_lags(scenario: Scenario) -> RequestedLags:
    """Return the lags that the built-in attacks of a scenario request; empty if attacks are swept."""
    if any(path.startswith("attacks") for path in scenario.sweep):
        return {}
    hindsights = {
        attack.name: attack.hindsight for attack in scenario.attacks if isinstance(attack, BayesianParameters)
    }
    return {name: (frozenset(past.lags), past.final) for name, past in hindsights.items() if past is not None}


def _summed(table: pa.Table, requested: RequestedLags) -> pd.DataFrame:
    """Return the sums of each user and lag in a part, which holds complete simulations.

    For attacks without requested lags, such as custom ones, the lags are those that occur before the last report, and
    estimates after the last report are final if they cover all past queries.
    """
    # Rows of shifts, and those without an attack, have no estimate.
    frame = table.filter(pc.is_valid(table["estimated_index"])).to_pandas()
    past = frame[frame["estimated_index"] < frame["index"]]
    online = frame[frame["estimated_index"] == frame["index"]].drop(columns="estimated_index")
    lasts = online.groupby(_SIMULATION, as_index=False).agg(last=("index", "max"))
    online = online.rename(columns={"index": "estimated_index", "adversary_error_km": "online_error_km"})
    past = past.merge(online, on=[*_SIMULATION, "estimated_index"], validate="many_to_one")
    past = past.merge(lasts, on=_SIMULATION, validate="many_to_one")
    past = past.assign(lag=past["index"] - past["estimated_index"], guesses=1)
    at_last = past["index"] == past["last"]
    regular = past[~at_last][[*SERIES, "lag"]].drop_duplicates()
    seen = past[[*SERIES, "lag"]].merge(regular.assign(seen=True), how="left")["seen"].notna().to_numpy()
    number = past.assign(now=at_last).groupby(_SIMULATION)["now"].transform("sum")
    everything = (number == past["last"] - 1).to_numpy()
    for name, (lags, concludes) in requested.items():
        own = (past["attack"] == name).to_numpy()
        seen = np.where(own, past["lag"].isin(lags), seen)
        everything = np.where(own, concludes, everything)
    by_lag, final = past[seen], past[at_last & everything]
    estimates = pd.concat([by_lag.assign(lag=by_lag["lag"].astype(str)), final.assign(lag=FINAL)])
    return estimates.groupby(_USER, as_index=False)[_SUMS].sum()


def errors_over_users(moments: Moments | None) -> pd.DataFrame:
    """Return the table of `smoothing_errors` from the moments of `smoothing_moments`."""
    if moments is None:
        return pd.DataFrame(columns=[*SERIES, "lag", "users", "guesses", *COLUMNS])
    keys = [*SERIES, "lag"]
    table = moments.counts("users", "guesses").merge(moments.intervals(), on=keys, validate="one_to_one")
    order = table["lag"].map(lambda lag: np.inf if lag == FINAL else int(lag)).astype(float)
    return (
        table.assign(order=order)
        .sort_values([*SERIES, "order"], kind="stable", ignore_index=True)
        .drop(columns="order")
    )
