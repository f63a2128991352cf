"""What adversaries make of past queries: P_AE(r, s) of Oya et al. 2019, the error about query s after report r."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.event_log import SERIES
from sim.analysis.statistics import intervals
from sim.attack.inference import InferenceParameters
from sim.scenario.models import Scenario
from sim.storage.run_directory import RunDirectory

FINAL = "final"
COLUMNS = ["adversary_error_km", "online_error_km", "gain_km"]
_USER = [*SERIES, "lag", "user"]
_SIMULATION = [*SERIES, "replication", "user"]
_NEEDED = [*_SIMULATION, "index", "estimated_index", "adversary_error_km"]
_SUMS = ["guesses", *COLUMNS[:2]]


def past_error(run: RunDirectory, users: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the mean error about past queries by how many reports later they were estimated once more.

    A row for each point, LPPM, attack and `lag` r - s, as text; `final` is about all past queries, from a user's last
    report. `adversary_error_km` is the error then, `online_error_km` that of the same queries when they were asked,
    `gain_km` what hindsight gains; `_low` and `_high` are the ends of 95 % intervals over users, whose means come
    first. Other columns: users, guesses. Without such guesses in the log, no rows.

    Takes a table of `of_users`, which is made unless it is given.
    """
    users = of_users(run) if users is None else users
    return users.rename(columns={"user": "users"}) if users.empty else _over_users(users)


def of_users(run: RunDirectory) -> pd.DataFrame:
    """Return the same of each user: a row for each point, LPPM, attack, lag and user with `COLUMNS` and guesses.

    The log is read one part after another; memory grows with the number of (point, LPPM, attack, lag, user).
    """
    sums: pd.DataFrame | None = None
    asked = _asked(run.manifest().scenario)
    for part in run.parts():
        both = run.read_part(part, ["index", "estimated_index"])
        if pc.any(pc.less(both["estimated_index"], both["index"])).as_py():
            own = _summed(run.read_part(part, _NEEDED), asked)
            sums = own if sums is None else pd.concat([sums, own]).groupby(_USER, as_index=False)[_SUMS].sum()
    if sums is None:
        return pd.DataFrame(columns=[*_USER, "guesses", *COLUMNS])
    own = sums.assign(**{name: sums[name] / sums["guesses"] for name in COLUMNS[:2]})
    return own.assign(gain_km=own["online_error_km"] - own["adversary_error_km"])


Asked = dict[str, tuple[frozenset[int], bool]]
"""Which lags an attack was asked for, and whether it has a last word."""


def _asked(scenario: Scenario) -> Asked:
    """Return what the attacks of a scenario were asked for, of those that state it, the same at all points."""
    if any(path.startswith("attacks") for path in scenario.sweep):
        return {}
    hindsights = {
        attack.name: attack.hindsight for attack in scenario.attacks if isinstance(attack, InferenceParameters)
    }
    return {name: (frozenset(past.lags), past.final) for name, past in hindsights.items() if past is not None}


def _summed(table: pa.Table, asked: Asked) -> pd.DataFrame:
    """Return the sums of each user and lag in a part, which holds whole simulations.

    Of an attack of which nobody knows what it was asked for, such as one's own, lags are those that occur before the
    last report, and its last word is one that is about all queries.
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
    for name, (lags, concludes) in asked.items():
        own = (past["attack"] == name).to_numpy()
        seen = np.where(own, past["lag"].isin(lags), seen)
        everything = np.where(own, concludes, everything)
    by_lag, final = past[seen], past[at_last & everything]
    told = pd.concat([by_lag.assign(lag=by_lag["lag"].astype(str)), final.assign(lag=FINAL)])
    return told.groupby(_USER, as_index=False)[_SUMS].sum()


def _over_users(own: pd.DataFrame) -> pd.DataFrame:
    """Return the means over users of each user's mean, with intervals."""
    keys = [*SERIES, "lag"]
    groups = own.groupby(keys)
    columns: dict[str, pd.Series[Any]] = {"users": groups["user"].size(), "guesses": groups["guesses"].sum()}
    counts = pd.DataFrame(columns).reset_index()
    table = counts.merge(intervals(own, keys, COLUMNS), on=keys, validate="one_to_one")
    order = table["lag"].map(lambda lag: np.inf if lag == FINAL else int(lag)).astype(float)
    return (
        table.assign(order=order)
        .sort_values([*SERIES, "order"], kind="stable", ignore_index=True)
        .drop(columns="order")
    )
