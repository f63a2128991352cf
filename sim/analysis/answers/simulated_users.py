"""The queries of each simulated user in an event log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sim.analysis.event_log import LogPart
from sim.analysis.trajectories import shown_at
from sim.interfaces import FloatArray, IntArray, OutputSpace
from sim.storage.event_schema import POSTERIOR_WITHIN_KM

SIMULATED = ["point", "lppm", "attack", "user", "replication"]
_POSTERIOR = ["posterior_at_truth", *POSTERIOR_WITHIN_KM.values()]
_COLUMNS = [*SIMULATED, "index", "time_s", "cell", "output", "estimate", *_POSTERIOR]
_NONE = -1


class SimulatedUser(NamedTuple):
    """The queries of a user under one LPPM and attack in one replication, in order of time."""

    point: int
    lppm: str
    attack: str
    """Empty if the run has no attack."""
    user: str
    replication: int
    times_s: IntArray
    cells: IntArray
    outputs: IntArray
    """Reported outputs; -1 for queries without a report."""
    estimates: IntArray
    posterior: Mapping[str, FloatArray]
    """Posterior probability of the true cell, and of the cells within radii, by column; NaN if not recorded."""

    @property
    def series(self) -> tuple[int, str, str]:
        """The sweep point, the LPPM and the attack."""
        return self.point, self.lppm, self.attack

    @property
    def reported(self) -> NDArray[np.bool_]:
        """Which queries have a report."""
        return np.asarray(self.outputs != _NONE)


def simulated_users(part: LogPart, *, first_attack: bool = False) -> Iterator[SimulatedUser]:
    """Yield the queries of each simulated user of a part, by LPPM and attack, or only of the first LPPM and attack."""
    table = part.queries(_COLUMNS)
    # Filled before the conversion, because pandas converts integers with missing values to floats.
    whole = {name: pc.fill_null(table[name], pa.scalar(_NONE, table[name].type)) for name in ("output", "estimate")}
    frame = table.drop_columns(list(whole)).to_pandas()
    frame = frame.assign(attack=frame["attack"].fillna(""), **{name: own.to_numpy() for name, own in whole.items()})
    if first_attack and len(frame):
        frame = frame[(frame["lppm"] == frame["lppm"].iloc[0]) & (frame["attack"] == frame["attack"].iloc[0])]
    labels: Any
    for labels, own in frame.groupby(SIMULATED, sort=False):
        point, lppm, attack, user, replication = labels
        rows = own.sort_values("index", kind="stable")
        times, cells, outputs, estimates = (
            rows[name].to_numpy(np.int64) for name in ("time_s", "cell", "output", "estimate")
        )
        posterior = {name: rows[name].to_numpy(float) for name in _POSTERIOR}
        labelled: tuple[int, str, str, str, int] = (int(point), lppm, attack, user, int(replication))
        yield SimulatedUser(*labelled, times, cells, outputs, estimates, posterior)


class ReportedCells:
    """Cells that the outputs of a mechanism report; a set of cells, such as one with dummies, reports all of them."""

    def __init__(self, space: OutputSpace) -> None:
        self._space = space
        self._cells: dict[int, tuple[int, ...]] = {}

    def of(self, own: SimulatedUser) -> tuple[IntArray, IntArray]:
        """Return the reported cells and their times; several per report of a set."""
        cells = [self._of_output(output) if output != _NONE else () for output in own.outputs.tolist()]
        times = np.repeat(own.times_s, [len(some) for some in cells])
        return np.array([cell for some in cells for cell in some], dtype=np.int64), times

    def _of_output(self, output: int) -> tuple[int, ...]:
        if output not in self._cells:
            self._cells[output] = shown_at(self._space, output)
        return self._cells[output]
