"""Collection of the losses of services from an event log, block by block of users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.event_log import LogPart, log_parts, require_parts
from sim.analysis.moments import Moments, add_moments
from sim.analysis.replication_effect import ReplicationMoments, batches_of, deviations
from sim.analysis.services.reported import NO_REPORT, losses_of
from sim.analysis.statistics import FEWEST_USERS
from sim.analysis.trajectories import output_space
from sim.analysis.user_blocks import rows_per_user, user_blocks
from sim.interfaces import OutputSpace
from sim.storage.run_directory import RunDirectory
from sim.storage.summary_rows import require_cells
from sim.world import Service

KEYS = ["service", "point", "lppm"]
LOSS, CHANGED, EVER, MOSTLY, UNANSWERED, QUERIES = (
    "loss",
    "changed",
    "users_ever",
    "users_mostly",
    "unanswered",
    "queries",
)
NAMES = [LOSS, CHANGED, EVER, MOSTLY, UNANSWERED]
"""Values of each user: mean loss, share of queries whose answer is changed, whether any and whether most of them are,
and share of queries without an answer."""
_COLUMNS = ["point", "lppm", "attack", "user", "replication", "cell", "output"]

Services = Mapping[int, Mapping[str, Service]]
"""Services by sweep point and name."""


@dataclass
class Collected:
    """Losses of the users; memory does not depend on the number of users."""

    moments: Moments | None = None
    """Moments over users of `NAMES`, by `KEYS`, with the sum of `QUERIES`."""
    effects: ReplicationMoments | None = None
    few: list[pd.DataFrame] = field(default_factory=list)
    """Values of the users of each group that has few users, for which extremes replace intervals."""
    replications: set[tuple[int, str, int]] = field(default_factory=set)
    """Points, LPPMs and numbers of replications."""
    spaces: dict[tuple[str, int], OutputSpace] = field(default_factory=dict)
    """Output spaces by LPPM and sweep point."""

    def add(self, simulated: pd.DataFrame) -> None:
        """Add a block of users: one row per group, user and replication."""
        users = simulated.groupby([*KEYS, "user"], sort=True)[NAMES].mean().reset_index()
        queries = simulated.groupby([*KEYS, "user"], sort=True)[QUERIES].sum().reset_index(drop=True)
        users[QUERIES] = queries
        apart = deviations(batches_of(simulated, KEYS, NAMES), KEYS, NAMES)
        effects = ReplicationMoments.of(apart, KEYS, NAMES)
        self.moments = add_moments(self.moments, Moments.of(users, KEYS, NAMES, sums=[QUERIES]))
        self.effects = effects if self.effects is None else self.effects.merged(effects)
        self.few.append(users.groupby(KEYS, sort=False).head(FEWEST_USERS - 1))


def collect(run: RunDirectory, services: Services) -> Collected:
    """Read the log of a run and return the losses of its users; services are those of each sweep point."""
    parts = run.parts()
    require_parts(run, parts)
    collected = Collected()
    for block in user_blocks(parts, rows_per_user(run.manifest().scenario)):
        rows: list[pd.DataFrame] = []
        for part in log_parts(run, block):
            require_cells(run, part.rows(["event"])["event"])
            rows += _losses_of_part(run, part, services, collected)
        collected.add(pd.concat(rows, ignore_index=True))
    return collected


def _losses_of_part(
    run: RunDirectory, part: LogPart, services: Services, collected: Collected
) -> Iterator[pd.DataFrame]:
    """Yield the values of each user and replication under each service and LPPM of a part."""
    labels: Any
    for labels, own in _reports(part).groupby(["point", "lppm"], sort=True):
        point, lppm = int(labels[0]), str(labels[1])
        if (lppm, point) not in collected.spaces:
            collected.spaces[lppm, point] = output_space(run, lppm, point)
        collected.replications |= {(point, lppm, replication) for replication in own["replication"].unique().tolist()}
        for name, service in services[point].items():
            yield _simulated(own, service, collected.spaces[lppm, point]).assign(service=name, point=point, lppm=lppm)


def _reports(part: LogPart) -> pd.DataFrame:
    """Return the queries of a part: those of the first attack on each LPPM, since reports do not depend on attacks."""
    table = part.queries(_COLUMNS)
    # Filled before the conversion, because pandas converts integers with missing values to floats.
    output = pc.fill_null(table["output"], pa.scalar(NO_REPORT, table["output"].type))
    frame = table.drop_columns(["output"]).to_pandas().assign(output=output.to_numpy())
    attack = frame["attack"].fillna("")
    return frame[attack == attack.groupby([frame["point"], frame["lppm"]]).transform("first")]


def _simulated(own: pd.DataFrame, service: Service, space: OutputSpace) -> pd.DataFrame:
    """Return the values of each user and replication under one service and LPPM."""
    losses = losses_of(service, space, own["cell"].to_numpy(np.int64), own["output"].to_numpy(np.int64))
    queries = own[["user", "replication"]].assign(
        **{LOSS: losses.loss, CHANGED: losses.changed.astype(float), UNANSWERED: 1.0 - losses.answered}
    )
    groups = queries.groupby(["user", "replication"], sort=True)
    values = groups[[LOSS, CHANGED, UNANSWERED]].mean()
    values[EVER] = (values[CHANGED] > 0).astype(float)
    values[MOSTLY] = (values[CHANGED] > 0.5).astype(float)
    values[QUERIES] = groups.size()
    return values.reset_index()
