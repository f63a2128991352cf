"""Further metrics of a run, next to the values that each mechanism predicts under its own model.

A metric is averaged over the queries of each user, over replications, then over users, who are the independent units of
confidence intervals (as in `sim.analysis.summary`). The predicted values, prefix `own_`, come from the snapshots: they
are the metrics of the channel under the mechanism's prior at that query (`sim.lppm.theory`). Oya et al. 2019 study the
difference between predicted and measured values.

`adversary_error_km` has different meanings in two files: in `summary.csv` it is the realised error of the sampled
reports, in `metrics.csv` the expected error where it was recorded, otherwise the realised one. The same holds for
`quality_loss_km`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.event_log import SERIES, LogPart, log_parts, require_parts
from sim.analysis.moments import UNITS, Moments
from sim.analysis.statistics import ENDS
from sim.analysis.summary import LOSS_AND_ERROR, preferred, summarize
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import RunDirectory
from sim.storage.summary_rows import summarized

_COMPACT_ROWS = 100_000
_USER = [*SERIES, "user"]
_SIMULATED = [*_USER, "replication"]
_OF_LPPM = ["point", "lppm"]


class Metric(NamedTuple):
    """Heading, description and number of decimals of a metric."""

    heading: str
    description: str
    digits: int = 3


METRICS = {
    "quality_loss_km": Metric(
        "Q-bar km",
        "mean quality loss per query: expected over the mechanism's noise where recorded, otherwise realised",
    ),
    "own_quality_loss_km": Metric("own Q-bar km", "expected quality loss under the mechanism's own model"),
    "worst_quality_loss_km": Metric("worst loss km", "largest realised loss of any query of any user"),
    "own_worst_loss_km": Metric("own worst loss km", "largest loss possible under the mechanism's own model"),
    "adversary_error_km": Metric(
        "P_AE km",
        "mean adversary error per query: expected over the mechanism's noise where recorded, otherwise realised",
    ),
    "own_adversary_error_km": Metric(
        "own P_AE km", "expected error of the optimal estimate under the mechanism's own model"
    ),
    "hit_rate": Metric("hit rate", "fraction of queries for which the estimate is the true cell"),
    "posterior_entropy_bits": Metric("entropy bits", "entropy of the adversary's posterior after the report, mean", 2),
    "own_entropy_bits": Metric(
        "own entropy bits", "conditional entropy of the cell given the report, under the mechanism's own model", 2
    ),
    "posterior_at_truth": Metric("posterior at truth", "posterior probability of the true cell, mean"),
    "identified_share": Metric("identified", "fraction of queries after which the adversary identifies the right user"),
    "epsilon_per_km": Metric("epsilon per km", "exact geo-indistinguishability epsilon per query, mean", 2),
    "epsilon_spent_per_km": Metric(
        "epsilon spent per km", "sum of the epsilons of a user's queries (sequential composition), mean over users", 1
    ),
}
"""Metrics by column of `metrics.csv`, in display order."""

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


def metrics(run: RunDirectory, summary: pd.DataFrame | None = None, moments: Moments | None = None) -> pd.DataFrame:
    """Return the table of `metrics.csv`: one row per point, LPPM and attack, one column per entry of `METRICS`.

    Further columns: `users`, and the limits `_low` and `_high` of 95 % confidence intervals over users (Student's t).
    Epsilons, which may be infinite, and the worst loss, which is a maximum, have none. A metric that was not recorded
    is NaN: see `unrecorded_metrics`.

    `quality_loss_km` and `adversary_error_km` are the columns `expected_...` of `summary.csv` where recorded, otherwise
    the realised values (in `summary.csv` these two columns are always the realised values).

    `summary` (from `summarize`) and `moments` (from `metric_moments`) are computed from the log if omitted.
    """
    summary = summarize(run) if summary is None else summary
    if summary.empty:
        return pd.DataFrame(columns=_COLUMNS)
    moments = metric_moments(of_users(run)) if moments is None else moments
    over_users = moments.intervals([*_SHARES, *_OWN]).set_index(SERIES).join(moments.frame[[*_EPSILONS, _WORST]])
    columns = {"users": summary["users"]}
    for name in LOSS_AND_ERROR:
        columns |= {name + end: preferred(summary, name, end) for end in ENDS}
    return summary[SERIES].assign(**columns).join(over_users, on=SERIES)[_COLUMNS]


def metric_moments(users: pd.DataFrame) -> Moments:
    """Return the moments over users of a table of `of_users`."""
    return Moments.of(users, SERIES, [*_SHARES, *_OWN, *_EPSILONS], maxima=[_WORST])


class MetricsCollector:
    """Collector of each user's metrics other than loss and error."""

    def __init__(self) -> None:
        self._users = _MeanAccumulator(_USER, maxima=(_WORST,))
        self._predicted = _MeanAccumulator([*_OF_LPPM, "user"])
        self._has_predictions = False
        self._pending: list[pa.Table] = []

    def add(self, part: LogPart) -> None:
        """Add a part of the log."""
        self._pending.append(_summed(part.queries([*_SIMULATED, *_READ])))
        if sum(table.num_rows for table in self._pending) > _COMPACT_ROWS:
            self._fold()
        predicted = part.snapshots(["lppm", "user", "replication", *_OWN])
        if set(_OWN) <= predicted.keys() and len(predicted["user"]):
            self._predicted.add(pd.DataFrame(predicted).assign(point=part.point))
            self._has_predictions = True

    def of_users(self) -> pd.DataFrame:
        """Return the table of `of_users`."""
        if self._pending:
            self._fold()
        means = self._users.means()
        return means.merge(self._predictions(), on=[*_OF_LPPM, "user"], how="left", validate="many_to_one")

    def _fold(self) -> None:
        self._users.add(_simulation_metrics(pa.concat_tables(self._pending)))
        self._pending = []

    def _predictions(self) -> pd.DataFrame:
        """Return the means over snapshots and replications of the predicted metrics, by point, LPPM and user."""
        if self._has_predictions:
            return self._predicted.means()
        types = {"point": "int64", "lppm": "str", "user": "str"} | dict.fromkeys(_OWN, "float64")
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in types.items()})


def of_users(run: RunDirectory) -> pd.DataFrame:
    """Return each user's metrics other than loss and error, averaged over queries and replications.

    One row per point, LPPM, attack and user. The predicted metrics (`own_...`) do not depend on the attack.
    """
    require_parts(run, run.parts())
    collector = MetricsCollector()
    for part in log_parts(run):
        collector.add(part)
    return collector.of_users()


def recorded_metrics(table: pd.DataFrame) -> list[str]:
    """Return the metrics with at least one value in a table of `metrics`, in the order of `METRICS`."""
    return [name for name in METRICS if table[name].notna().any()]


def unrecorded_metrics(table: pd.DataFrame, manifest: RunManifest) -> list[str]:
    """Return one sentence per setting that would record the metrics missing in a table of `metrics`."""
    hints = []
    if summarized(manifest):
        names = ("hit_rate", _WORST, "posterior_entropy_bits", "posterior_at_truth", "identified_share", *_EPSILONS)
        hints.append(
            f"Not available from a summarized log, which has means over several queries: {_listed(names)}. "
            "Set record.log to queries."
        )
    else:
        attacked = (table["attack"] != "").any()
        if attacked and table["posterior_at_truth"].isna().all():
            hints.append(f"Set record.posterior for {_listed(_SHARES[1:3])}.")
        if table["epsilon_per_km"].isna().all():
            hints.append(f"Set record.epsilon for {_listed(_EPSILONS)}.")
    if table[_OWN[0]].isna().all():
        hints.append(f"Set record.snapshots for {_listed(_OWN)}.")
    return hints


def sampled_predictions(moments: Moments) -> list[str]:
    """Return a sentence on the metrics predicted by the mechanisms, if not all users have snapshots."""
    with_snapshots, users = (int(moments.frame[name].max()) for name in (f"{_OWN[0]}_count", UNITS))
    if not 0 < with_snapshots < users:
        return []
    return [f"Predicted metrics (own) are means over the {with_snapshots:,} of {users:,} users with snapshots."]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(METRICS[name].heading for name in METRICS if name in names)


class _MeanAccumulator:
    """Means (and maxima) by user over replications, accumulated periodically so that memory holds one row per user.

    Up to 100,000 rows the sums do not depend on how simulations are distributed over parts.
    """

    def __init__(self, keys: list[str], maxima: Sequence[str] = ()) -> None:
        self._keys, self._maxima = keys, list(maxima)
        self._pieces: list[pd.DataFrame] = []
        self._waiting, self._limit = 0, _COMPACT_ROWS
        self._sums: pd.DataFrame | None = None
        self._counts: pd.DataFrame | None = None
        self._largest: pd.DataFrame | None = None

    def add(self, simulated: pd.DataFrame) -> None:
        """Add rows by user and replication; all rows of a simulation must be in the same call."""
        self._pieces.append(simulated)
        self._waiting += len(simulated)
        if self._waiting > self._limit:
            self._fold()

    def means(self) -> pd.DataFrame:
        """Return the mean over the rows of each user, and the maximum for the columns `maxima`."""
        if self._pieces:
            self._fold()
        assert self._sums is not None
        assert self._counts is not None
        assert self._largest is not None
        return (self._sums / self._counts.where(self._counts > 0)).join(self._largest).reset_index()

    def _fold(self) -> None:
        rows = pd.concat(self._pieces, ignore_index=True).sort_values([*self._keys, "replication"], kind="stable")
        names = [name for name in rows.columns if name not in (*self._keys, "replication", *self._maxima)]
        groups = rows.groupby(self._keys, sort=True)
        sums, counts, largest = groups[names].sum(), groups[names].count(), groups[self._maxima].max()
        if self._sums is not None and self._counts is not None and self._largest is not None:
            sums, counts = self._sums.add(sums, fill_value=0), self._counts.add(counts, fill_value=0)
            largest = pd.concat([self._largest, largest]).groupby(level=self._keys).max()
        self._sums, self._counts, self._largest = sums, counts, largest
        self._pieces, self._waiting, self._limit = [], 0, max(_COMPACT_ROWS, len(sums))


_SUMMED = ("hit_rate", "posterior_entropy_bits", "posterior_at_truth", "identified_share", "epsilon_per_km")


def _simulation_metrics(summed: pa.Table) -> pd.DataFrame:
    """Return the metrics of each user and replication from their sums and counts."""
    sums = summed.to_pandas()
    frame = sums[_SIMULATED].assign(attack=sums["attack"].fillna(""))
    for name in _SUMMED:
        counts = sums[f"{name}_count"]
        frame[name] = sums[f"{name}_sum"].astype(float) / counts.where(counts > 0)
    return frame.assign(
        epsilon_spent_per_km=sums["epsilon_per_km_sum"].astype(float),
        **{_WORST: sums[f"{_WORST}_max"].astype(float)},
    )


def _summed(rows: pa.Table) -> pa.Table:
    """Return the sums and counts of each user and replication of a part."""
    losses: Any = rows["quality_loss_km"]
    if "queries" in rows.column_names:  # the mean over a window is not the loss of a query
        losses = pa.nulls(rows.num_rows, pa.float64())
    values = {
        "hit_rate": _as_float(pc.equal(rows["cell"], rows["estimate"])),
        "posterior_entropy_bits": rows["posterior_entropy_bits"],
        "posterior_at_truth": rows["posterior_at_truth"],
        "identified_share": _as_float(pc.equal(rows["identity"], rows["user"])),
        "epsilon_per_km": rows["epsilon_per_km"],
    }
    table = rows.select(_SIMULATED).append_column(_WORST, losses)
    for name in _SUMMED:
        table = table.append_column(name, values[name])
    aggregations: list[Any] = [(name, what) for name in _SUMMED for what in ("sum", "count")]
    return table.group_by(_SIMULATED, use_threads=False).aggregate([*aggregations, (_WORST, "max")])


def _as_float(mask: Any) -> Any:
    return mask.cast(pa.float64())
