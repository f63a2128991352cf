"""More figures of a run than loss and error, and beside these what mechanisms promised under their own models.

One reading of the log, part after part, keeps a row for each user, as `sim.analysis.summary` does: a figure is
averaged over the queries of each user, over replications, then over users, who are the independent units of intervals.
What a mechanism promised comes from the snapshots: the figures of its channel on the prior that it believed
(`sim.lppm.theory`). How far these are from what happened is the point of Oya et al. 2019: reality is another model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.event_log import SERIES, LogPart, log_parts, require_parts
from sim.analysis.statistics import ENDS, intervals
from sim.analysis.summary import LOSS_AND_ERROR, preferred, summarize
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import RunDirectory
from sim.storage.summary_rows import summarized

_COMPACT_ROWS = 100_000
_USER = [*SERIES, "user"]
_SIMULATED = [*_USER, "replication"]
_OF_LPPM = ["point", "lppm"]


class Metric(NamedTuple):
    """How a figure is shown, and what it says."""

    heading: str
    words: str
    digits: int = 3


METRICS = {
    "quality_loss_km": Metric("Q-bar km", "quality loss of a query, expected over the mechanism's noise where known"),
    "own_quality_loss_km": Metric("own Q-bar km", "the loss that the mechanism promises under its own model"),
    "worst_quality_loss_km": Metric("worst loss km", "the largest loss that any user had at any query"),
    "own_worst_loss_km": Metric("own worst loss km", "the largest loss that its own model holds possible"),
    "adversary_error_km": Metric("P_AE km", "mean error of the adversary's estimate"),
    "own_adversary_error_km": Metric(
        "own P_AE km", "the error of the best estimate if the user were as the mechanism believes"
    ),
    "hit_rate": Metric("hit rate", "share of queries at which the estimate is the true cell"),
    "posterior_entropy_bits": Metric(
        "entropy bits", "what the adversary has yet to learn of the cell, after the report, by what she believes", 2
    ),
    "own_entropy_bits": Metric(
        "own entropy bits", "conditional entropy of the cell given the report, under the mechanism's own model", 2
    ),
    "posterior_at_truth": Metric("mass at truth", "probability that the adversary gives to the true cell"),
    "identified_share": Metric("identified", "share of queries after which the adversary names the right user"),
    "epsilon_per_km": Metric("epsilon per km", "exact epsilon of geo-indistinguishability of a query, mean", 2),
    "epsilon_spent_per_km": Metric(
        "epsilon spent per km", "sum of the epsilons of a user's queries (sequential composition), mean over users", 1
    ),
}
"""The figures of the table in the order in which they are shown."""

_OWN = ("own_quality_loss_km", "own_adversary_error_km", "own_entropy_bits", "own_worst_loss_km")
_SHARES = ("hit_rate", "posterior_entropy_bits", "posterior_at_truth", "identified_share")
_WORST = "worst_quality_loss_km"
_EPSILONS = ("epsilon_per_km", "epsilon_spent_per_km")
WITH_INTERVAL = (*LOSS_AND_ERROR, *_OWN, *_SHARES)
_COLUMNS = [
    *(*SERIES, "users"),
    *(f"{name}{end}" for name in METRICS for end in (ENDS if name in WITH_INTERVAL else ("",))),
]
_READ = ["cell", "estimate", "quality_loss_km", *_SHARES[1:3], "epsilon_per_km", "identity"]


def metrics(run: RunDirectory, summary: pd.DataFrame | None = None, users: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the table of `metrics.csv`: a row for each point, LPPM and attack, a column for each of `METRICS`.

    Beside them `users`, and `_low` and `_high` of the 95 % intervals of Student's t over users; epsilons, which may be
    infinite, and the worst loss, which is no mean, have none. A metric that was not recorded is NaN: see
    `unrecorded_metrics`.

    Loss and error are those of `summarize`, the others those of `of_users`, for which the log is read unless
    their tables are given.
    """
    summary = summarize(run) if summary is None else summary
    if summary.empty:
        return pd.DataFrame(columns=_COLUMNS)
    users = of_users(run) if users is None else users
    of_series = users.groupby(SERIES, sort=True)
    over_users = intervals(users, SERIES, [*_SHARES, *_OWN]).set_index(SERIES)
    over_users = over_users.join(of_series[list(_EPSILONS)].mean()).join(of_series[[_WORST]].max())
    columns = {"users": summary["users"]}
    for name in LOSS_AND_ERROR:
        columns |= {name + end: preferred(summary, name, end) for end in ENDS}
    return summary[SERIES].assign(**columns).join(over_users, on=SERIES)[_COLUMNS]


class MetricsCollector:
    """Users' own values of the metrics other than loss and error, of the parts read so far."""

    def __init__(self) -> None:
        self._users = _Folded(_USER, worst=(_WORST,))
        self._promised = _Folded([*_OF_LPPM, "user"])
        self._has_promises = False
        self._pending: list[pa.Table] = []

    def add(self, part: LogPart) -> None:
        """Take in a part."""
        self._pending.append(_summed(part.queries([*_SIMULATED, *_READ])))
        if sum(table.num_rows for table in self._pending) > _COMPACT_ROWS:
            self._fold()
        promised = part.snapshots(["lppm", "user", "replication", *_OWN])
        if set(_OWN) <= promised.keys() and len(promised["user"]):
            self._promised.add(pd.DataFrame(promised).assign(point=part.point))
            self._has_promises = True

    def of_users(self) -> pd.DataFrame:
        """Return the table of `of_users`."""
        if self._pending:
            self._fold()
        means = self._users.means()
        return means.merge(self._promises(), on=[*_OF_LPPM, "user"], how="left", validate="many_to_one")

    def _fold(self) -> None:
        self._users.add(_figures(pa.concat_tables(self._pending)))
        self._pending = []

    def _promises(self) -> pd.DataFrame:
        """Return, by point, LPPM and user, the means over snapshots and replications of what mechanisms promised."""
        if self._has_promises:
            return self._promised.means()
        types = {"point": "int64", "lppm": "str", "user": "str"} | dict.fromkeys(_OWN, "float64")
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in types.items()})


def of_users(run: RunDirectory) -> pd.DataFrame:
    """Return each user's own values of the metrics other than loss and error: means over queries and replications.

    A row for each point, LPPM, attack and user. What mechanisms promised does not depend on the attack.
    """
    require_parts(run, run.parts())
    collector = MetricsCollector()
    for part in log_parts(run):
        collector.add(part)
    return collector.of_users()


def recorded_metrics(table: pd.DataFrame) -> list[str]:
    """Return the names of the figures that a table of `metrics` has a value of, in the order of `METRICS`."""
    return [name for name in METRICS if table[name].notna().any()]


def unrecorded_metrics(table: pd.DataFrame, manifest: RunManifest) -> list[str]:
    """Say which figures a run cannot tell, and what to set so that it does; takes a table of `metrics`."""
    found = []
    if summarized(manifest):
        names = ("hit_rate", _WORST, "posterior_entropy_bits", "posterior_at_truth", "identified_share", *_EPSILONS)
        found.append(
            f"A summary keeps means of several queries, from which these cannot be told: {_listed(names)}. Set "
            "record.log to queries."
        )
    else:
        attacked = (table["attack"] != "").any()
        if attacked and table["posterior_at_truth"].isna().all():
            found.append(f"Set record.posterior for {_listed(_SHARES[1:3])}.")
        if table["epsilon_per_km"].isna().all():
            found.append(f"Set record.epsilon for {_listed(_EPSILONS)}.")
    if table[_OWN[0]].isna().all():
        found.append(f"Set record.snapshots for {_listed(_OWN)}.")
    return found


def _listed(names: Sequence[str]) -> str:
    return ", ".join(METRICS[name].heading for name in METRICS if name in names)


class _Folded:
    """Sums by user over replications, folded now and then so that memory holds users alone.

    Up to a hundred thousand rows the sums do not depend on how simulations were packed into parts.
    """

    def __init__(self, keys: list[str], worst: Sequence[str] = ()) -> None:
        self._keys, self._worst = keys, list(worst)
        self._pieces: list[pd.DataFrame] = []
        self._waiting, self._limit = 0, _COMPACT_ROWS
        self._sums: pd.DataFrame | None = None
        self._counts: pd.DataFrame | None = None
        self._largest: pd.DataFrame | None = None

    def add(self, simulated: pd.DataFrame) -> None:
        """Take in rows by user and replication, all those of a simulation at once."""
        self._pieces.append(simulated)
        self._waiting += len(simulated)
        if self._waiting > self._limit:
            self._fold()

    def means(self) -> pd.DataFrame:
        """Return the mean over the rows of each user, and of some figures the largest."""
        if self._pieces:
            self._fold()
        assert self._sums is not None
        assert self._counts is not None
        assert self._largest is not None
        return (self._sums / self._counts.where(self._counts > 0)).join(self._largest).reset_index()

    def _fold(self) -> None:
        rows = pd.concat(self._pieces, ignore_index=True).sort_values([*self._keys, "replication"], kind="stable")
        figures = [name for name in rows.columns if name not in (*self._keys, "replication", *self._worst)]
        groups = rows.groupby(self._keys, sort=True)
        sums, counts, largest = groups[figures].sum(), groups[figures].count(), groups[self._worst].max()
        if self._sums is not None and self._counts is not None and self._largest is not None:
            sums, counts = self._sums.add(sums, fill_value=0), self._counts.add(counts, fill_value=0)
            largest = pd.concat([self._largest, largest]).groupby(level=self._keys).max()
        self._sums, self._counts, self._largest = sums, counts, largest
        self._pieces, self._waiting, self._limit = [], 0, max(_COMPACT_ROWS, len(sums))


_SUMMED = ("hit_rate", "posterior_entropy_bits", "posterior_at_truth", "identified_share", "epsilon_per_km")


def _figures(summed: pa.Table) -> pd.DataFrame:
    """Return the figures of each simulated user from their sums and counts."""
    found = summed.to_pandas()
    frame = found[_SIMULATED].assign(attack=found["attack"].fillna(""))
    for name in _SUMMED:
        counts = found[f"{name}_count"]
        frame[name] = found[f"{name}_sum"].astype(float) / counts.where(counts > 0)
    return frame.assign(
        epsilon_spent_per_km=found["epsilon_per_km_sum"].astype(float),
        **{_WORST: found[f"{_WORST}_max"].astype(float)},
    )


def _summed(rows: pa.Table) -> pa.Table:
    """Return the sums and counts of each simulated user of a part."""
    losses: Any = rows["quality_loss_km"]
    if "queries" in rows.column_names:  # a mean over a window is no loss of a query
        losses = pa.nulls(rows.num_rows, pa.float64())
    values = {
        "hit_rate": _one_or_nought(pc.equal(rows["cell"], rows["estimate"])),
        "posterior_entropy_bits": rows["posterior_entropy_bits"],
        "posterior_at_truth": rows["posterior_at_truth"],
        "identified_share": _one_or_nought(pc.equal(rows["identity"], rows["user"])),
        "epsilon_per_km": rows["epsilon_per_km"],
    }
    table = rows.select(_SIMULATED).append_column(_WORST, losses)
    for name in _SUMMED:
        table = table.append_column(name, values[name])
    aggregations: list[Any] = [(name, what) for name in _SUMMED for what in ("sum", "count")]
    return table.group_by(_SIMULATED, use_threads=False).aggregate([*aggregations, (_WORST, "max")])


def _one_or_nought(same: Any) -> Any:
    return same.cast(pa.float64())
