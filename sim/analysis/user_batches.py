"""Means of users by batch of replications, with all metrics that comparisons at equal loss need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from sim.analysis.event_log import SERIES, log_parts
from sim.analysis.replication_effect import BATCH, MOST_BATCHES
from sim.analysis.smoothing_error import FINAL, SmoothingErrorCollector
from sim.analysis.summary import TotalsCollector
from sim.analysis.user_curves import SMOOTHED_ERROR_KM
from sim.errors import UserError
from sim.scenario.sweep import points
from sim.simulation.prior_error import smallest_prior_error_km
from sim.storage.event_schema import PRIOR_ERROR_KM
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import RunDirectory
from sim.storage.summary_rows import summarized, weights_of
from sim.world.distance import Distance

_SINCE = 4
"""Schema version that introduced the prior error."""
_SIMULATED = ["point", "user", "replication"]


def read_user_batches(run: RunDirectory, parts: Sequence[str]) -> pd.DataFrame:
    """Read some parts of a log; return `Totals.batches` with the columns of `completed`."""
    totals, smoothing = TotalsCollector(), SmoothingErrorCollector(run.manifest().scenario)
    for part in log_parts(run, parts):
        totals.add(part)
        smoothing.add(part)
    return completed(totals.totals().batches, smoothing.of_users(), run, parts)


def completed(batches: pd.DataFrame, smoothing: pd.DataFrame, run: RunDirectory, parts: Sequence[str]) -> pd.DataFrame:
    """Return the means of users with the error after smoothing and, for an earlier log, the prior error P0.

    `smoothed_error_km` is the mean error of a user's estimates after the last report, over replications; NaN if the
    attack makes none. `batches` are `Totals.batches` and `smoothing` the smoothing errors of the users in some parts.
    """
    final = smoothing[smoothing["lag"] == FINAL]
    own = final[[*SERIES, "user"]].assign(**{SMOOTHED_ERROR_KM: final["adversary_error_km"].astype(float)})
    keys = [*SERIES, "user"]
    joined = batches.merge(own, on=keys, how="left", validate="many_to_one") if len(own) else batches
    joined = joined if len(own) else joined.assign(**{SMOOTHED_ERROR_KM: np.nan})
    manifest = run.manifest()
    if manifest.schema_version >= _SINCE or summarized(manifest):
        return joined
    errors = _from_cells(run, parts)
    return joined if errors is None else joined.drop(columns=PRIOR_ERROR_KM).merge(errors, how="left")


def prior_error_note(run: RunDirectory) -> str:
    """Return a sentence on P0 if the log, of an earlier schema version, does not record it; else an empty text."""
    manifest = run.manifest()
    if manifest.schema_version >= _SINCE:
        return ""
    start = f"the log has no prior errors P0 (schema version {manifest.schema_version})"
    if summarized(manifest):
        return f"{start} and no cells to compute them from: at equal loss all users are compared"
    try:
        _distances(manifest)
    except UserError as error:
        return f"{start}, and the world cannot be built to compute them ({error}): at equal loss all users are compared"
    return f"{start}: they are computed from the users' test cells, as for an adversary who knows the test statistics"


def _distances(manifest: RunManifest) -> dict[int, Distance]:
    """Return d_P of each sweep point; points with the same setting share it."""
    distances: dict[str, Distance] = {}
    by_point = {}
    for point in points(manifest.scenario):
        if point.setting not in distances:
            distances[point.setting] = point.scenario.build_world().privacy_distance
        by_point[point.index] = distances[point.setting]
    return by_point


def _from_cells(run: RunDirectory, parts: Sequence[str]) -> pd.DataFrame | None:
    """Return the smallest P0 of each user by point and batch, from the true cells; None if d_P cannot be computed."""
    try:
        distances = _distances(run.manifest())
    except UserError:
        return None
    tables = []
    for part in log_parts(run, parts):
        rows = part.queries([*_SIMULATED, "index", "cell"])
        assert (weights_of(rows) == 1).all()
        tables.append(rows.group_by([*_SIMULATED, "index"]).aggregate([("cell", "min")]))
    cells = pa.concat_tables(tables).group_by([*_SIMULATED, "index"]).aggregate([("cell_min", "min")]).to_pandas()
    table = cells[_SIMULATED].drop_duplicates().sort_values(_SIMULATED, ignore_index=True)
    groups = cells.groupby(_SIMULATED, sort=True)["cell_min_min"]
    table[PRIOR_ERROR_KM] = [
        smallest_prior_error_km(own.to_numpy(), distances[point])
        for point, (_, own) in zip(table["point"].tolist(), groups, strict=True)
    ]
    table[BATCH] = table["replication"] % MOST_BATCHES
    return table.groupby(["point", "user", BATCH])[[PRIOR_ERROR_KM]].mean().reset_index()
