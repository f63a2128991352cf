"""Individual rows of a sample of users, collected from blocks of users."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sim.storage.sampling import UserSample


class PointSamples:
    """A sample of the users of each sweep point; with few users, all of them (see `sim.storage.sampling`)."""

    def __init__(self) -> None:
        self._samples: dict[int, UserSample] = {}

    def add(self, rows: pd.DataFrame) -> None:
        """Add the users in rows with the columns `point` and `user`."""
        for point, users in rows.groupby("point", sort=False)["user"]:
            self._samples.setdefault(int(str(point)), UserSample()).add(users.unique())

    def of(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the sampled users."""
        keys = zip(rows["point"], rows["user"], strict=True)
        kept = [point in self._samples and user in self._samples[point] for point, user in keys]
        return rows[np.array(kept, dtype=bool)]


class SampledRows:
    """Rows of the sampled users; users that leave the sample when others are added are removed."""

    def __init__(self, samples: PointSamples) -> None:
        self._samples = samples
        self._rows: pd.DataFrame | None = None

    def add(self, rows: pd.DataFrame) -> None:
        """Add the rows of further users, whose samples have been updated before."""
        kept = [] if self._rows is None or self._rows.empty else [self._samples.of(self._rows)]
        more = self._samples.of(rows)
        self._rows = pd.concat([*kept, more], ignore_index=True) if kept and len(more) else kept[0] if kept else more

    def rows(self, *keys: str) -> pd.DataFrame:
        """Return the rows, sorted by these columns."""
        assert self._rows is not None
        return self._samples.of(self._rows).sort_values(list(keys), kind="stable", ignore_index=True)
