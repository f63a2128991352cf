"""Data of the replay: one simulation per mechanism, packed into a few characters per query.

The replay shows the first replication at the middle sweep point. Users that exceed the maximum size of a page are
omitted, which the page reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.result import Result
from sim.analysis.trajectories import evenly, query_counts, values_per_query
from sim.interfaces import FloatArray, IntArray, OutputSpace
from sim.report.markup import numbered_names
from sim.report.packing import Packed, pack, pack_cells
from sim.report.replay_world import MOST_VERTICES, replay_world
from sim.report.study import Study
from sim.storage.summary_rows import NO_POSITIONS, summarized

_LETTERS_PER_VALUE = 1.5
"""Approximate number of characters of a packed value."""
_REGULAR = 0.5
"""Coefficient of variation of the time between queries below which the replay runs by time, otherwise by query."""
_CLOCK_FROM_S = 100_000_000
"""Times above this are Unix times; simulated times start at zero."""
_STEP_KM = 0.01
"""Resolution of distances that the page cannot compute from the cells."""
_FROM_CELLS = ("manhattan", "euclidean")
"""Distances that the page computes from the cells."""
_KEYS = ["user", "index"]


@dataclass(frozen=True, slots=True)
class _Simulation:
    """Reports and estimates of some users' queries under one mechanism; rows sorted by user, then query."""

    series: int
    point: int
    at: str
    truth: pd.DataFrame
    """Columns: user, index, time_s, cell."""
    space: OutputSpace
    shown: IntArray
    """Cell at which the report is shown, -1 for none."""
    output_index: IntArray
    """Position of the report among the distinct outputs."""
    named: Sequence[tuple[int, ...]]
    """Cells that each of the distinct outputs covers."""
    loss_km: FloatArray
    estimates: dict[str, IntArray]
    errors_km: dict[str, FloatArray]
    beliefs: pd.DataFrame
    """Columns: user, index, profile."""

    def of(self, users: Sequence[str], length: int) -> _Simulation:
        """Return the first queries of some of the users."""
        kept = (self.truth["user"].isin(users) & (self.truth["index"] <= length)).to_numpy()
        known = self.beliefs["user"].isin(users) & (self.beliefs["index"] <= length)
        return replace(
            self,
            truth=self.truth[kept],
            shown=self.shown[kept],
            output_index=self.output_index[kept],
            loss_km=self.loss_km[kept],
            estimates={name: cells[kept] for name, cells in self.estimates.items()},
            errors_km={name: errors[kept] for name, errors in self.errors_km.items()},
            beliefs=self.beliefs[known],
        )


def replays(study: Study, room: int) -> list[dict[str, Any]]:
    """Return the replay data of each run, or the reason why there is none, in at most `room` characters."""
    return [
        {"run": name} | _replay(study, name, result, room // len(study.results))
        for name, result in zip(study.names, study.results, strict=True)
    ]


def _replay(study: Study, name: str, result: Result, room: int) -> dict[str, Any]:
    if summarized(result.manifest):
        return {"none": NO_POSITIONS}
    chosen = study.at_middle(study.summary[study.summary["run"] == name])
    first = chosen.iloc[0]
    expected = query_counts(result.totals(), first["point"], first["own_lppm"], first["attack"])
    values = values_per_query(len(chosen), chosen["lppm"].nunique())
    selected = evenly(expected[result.trajectories().users], int(room / (_LETTERS_PER_VALUE * values)))
    read = [_simulation(result, study, rows.iloc[0], selected) for _, rows in chosen.groupby("lppm", sort=False)]
    simulations = [one for one in read if len(one.truth)]
    if not simulations:
        return {"none": "The replay shows the first replication at the middle sweep points, which is not finished yet."}
    same = [one for one in simulations if one.truth.equals(simulations[0].truth)]
    lengths = same[0].truth.groupby("user", sort=False).size()
    users, length = [str(user) for user in lengths.index], int(lengths.max())
    packed = _packed(result, same)
    while (letters := _letters(packed)) > room and len(users) * length > 1:
        kept = lengths[users].clip(upper=length)
        fits = int(kept.sum() * 0.9 * room / letters)
        users, length = evenly(kept, fits), length if len(users) > 1 else max(fits, 1)
        packed = _packed(result, [one.of(users, length) for one in same])
    notes = []
    if len(same) < len(read):
        notes.append("Mechanisms with other users than the first one, or not simulated yet, are omitted.")
    everybody = result.totals().n_users
    if len(users) < everybody and result.sample_note():
        notes.append(
            f"Shows a sample of {len(users):,} of {everybody:,} users, chosen by a hash of their names, to limit the "
            "page to 5 MB."
        )
    elif left_out := len(expected) - len(selected) + len(lengths) - len(users):
        notes.append(f"Shows {len(users):,} of {len(users) + left_out:,} users, to limit the page to 5 MB.")
    notes += _world_notes(packed)
    if length < lengths.max():
        notes.append(f"Shows the first {length:,} queries of each user, to limit the page to 5 MB.")
    return packed | {"note": " ".join(notes), "shifts": _shifts(result, same[0].point, users, length)}


def _simulation(result: Result, study: Study, row: pd.Series[Any], users: Sequence[str]) -> _Simulation:
    """Return the simulation of some users under one mechanism, in the first replication."""
    point, lppm = int(row["point"]), row["own_lppm"]
    trajectories = result.trajectories().trajectories(lppm, point)
    table, beliefs = trajectories.rows, trajectories.beliefs
    table = table.filter(pc.is_in(table["user"], pa.array(users, pa.string())))
    space = result.output_space(lppm, point)
    # Outputs are encoded before the conversion to pandas, which would round large integers in a column with nulls.
    outputs = table["output"].combine_chunks().dictionary_encode(null_encoding="encode")
    frame = (
        table.drop_columns(["output"]).to_pandas().assign(output_index=outputs.indices.to_numpy(zero_copy_only=False))
    )
    frame = frame.assign(place=frame["user"].map({user: i for i, user in enumerate(users)}))
    frame = frame.sort_values(["place", "index"], kind="stable", ignore_index=True)
    once = frame.drop_duplicates(_KEYS)
    output_index = once["output_index"].to_numpy(np.int64)
    distinct = outputs.dictionary.to_pylist()
    shown = np.array([-1 if output is None else space.shown_at(output) for output in distinct], dtype=np.int64)
    of_attack = {str(attack): own for attack, own in frame.groupby("attack", sort=False)}
    return _Simulation(
        series=next(i for i, entry in enumerate(study.series) if entry["name"] == row["lppm"]),
        point=point,
        at=row["at"],
        truth=once[["user", "index", "time_s", "cell"]].reset_index(drop=True),
        space=space,
        shown=shown[output_index],
        output_index=output_index,
        named=[() if output is None else space.cells(output) for output in distinct],
        loss_km=once["quality_loss_km"].to_numpy(np.float64),
        estimates={name: own["estimate"].to_numpy(np.int64) for name, own in of_attack.items()},
        errors_km={name: own["adversary_error_km"].to_numpy(np.float64) for name, own in of_attack.items()},
        beliefs=beliefs[beliefs["user"].isin(users)],
    )


def _packed(result: Result, simulations: Sequence[_Simulation]) -> dict[str, Any]:
    """Return simulations of the same users in the packed format of the page."""
    truth = simulations[0].truth
    lengths = truth.groupby("user", sort=False).size()
    users = [str(user) for user in lengths.index]
    point = simulations[0].point
    world, cells = replay_world(result, point), result.manifest.world_of(point).restore_locations().n_cells
    times = truth["time_s"].to_numpy(np.float64)
    distances = result.manifest.scenario.world
    quality, privacy = distances.quality_distance.kind, distances.privacy_distance.kind
    return {
        "world": world,
        "users": numbered_names(users),
        "queries": [int(length) for length in lengths],
        "time_s": pack(times),
        "cell": pack_cells(truth["cell"].to_numpy(np.int64), cells),
        "clock": "date" if times.min() > _CLOCK_FROM_S else "day",
        "distances": {"loss": quality, "error": privacy},
        "axis": "time" if _is_regular(truth) else "query",
        "lppms": [
            {
                "series": one.series,
                "at": one.at,
                "space": one.space.kind,
                "output": pack_cells(np.where(one.shown < 0, cells, one.shown), cells),
                "named": _packed_names(one, cells),
                "km": _pack_km(one.loss_km, quality if one.space.kind == "cells" else "its own"),
                "estimates": [
                    {"attack": name, "cell": pack_cells(estimate, cells), "km": _pack_km(one.errors_km[name], privacy)}
                    for name, estimate in one.estimates.items()
                ],
                "beliefs": _packed_beliefs(one.beliefs, users),
            }
            for one in simulations
        ],
    }


def _world_notes(packed: Mapping[str, Any]) -> Iterator[str]:
    """Yield notes on outlines that are not drawn, and on beliefs that are shown by tile, or for some users only."""
    world, beliefs = packed["world"], [lppm["beliefs"] for lppm in packed["lppms"] if lppm["beliefs"] is not None]
    if world.get("too_detailed"):
        yield f"Locations are drawn as dots: their outlines have more than {MOST_VERTICES:,} vertices."
    tiles = world["tiles"]
    if beliefs and tiles is not None and "side_km" in tiles:
        yield f"Beliefs are summed over squares of {1000 * tiles['side_km']:,.0f} m."
    elif beliefs and tiles is not None and tiles["size"] > 1:
        yield f"Beliefs are summed over tiles of {tiles['size']} × {tiles['size']} cells."
    known = len({user for own in beliefs for user in own["user"]})
    if beliefs and known < len(packed["users"]):
        yield f"Beliefs were recorded for {known:,} of these users."


def _packed_names(one: _Simulation, cells: int) -> dict[str, Packed] | None:
    """Return the cells that each output covers, for regions and sets: concatenated cells and start positions."""
    if one.space.kind not in ("regions", "sets"):
        return None
    used, position = np.unique(one.output_index, return_inverse=True)
    named = [one.named[place] for place in used]
    return {
        "output": pack(position.astype(np.uint32)),
        "start": pack(np.cumsum([0, *map(len, named)]).astype(np.uint32)),
        "cells": pack_cells(np.array([cell for own in named for cell in own], dtype=np.int64), cells),
    }


def _packed_beliefs(beliefs: pd.DataFrame, users: Sequence[str]) -> dict[str, Any] | None:
    """Return beliefs in 256 shades, with a square root scale that makes small probabilities visible."""
    if beliefs.empty:
        return None
    place = beliefs["user"].map({user: i for i, user in enumerate(users)})
    ordered = beliefs.assign(place=place).sort_values(["place", "index"], kind="stable")
    profiles: FloatArray = np.stack(ordered["profile"].tolist())
    top = profiles.max(axis=1)
    shades = np.rint(255 * np.sqrt(profiles / np.where(top > 0, top, 1.0)[:, None])).astype(np.uint8)
    return {
        "user": ordered["place"].astype(int).tolist(),
        "index": ordered["index"].astype(int).tolist(),
        "value": pack(shades.ravel()),
        "top": [float(f"{value:.4g}") for value in top],
    }


def _shifts(result: Result, point: int, users: Sequence[str], length: int) -> list[dict[str, Any]]:
    shifts, place = result.shifts(), {user: i for i, user in enumerate(users)}
    own = shifts[(shifts["point"] == point) & (shifts["replication"] == 0)]
    return [
        {
            "user": place[row["user"]],
            "index": int(row["index"]),
            "name": row["shift"],
            "ends": row["event"] == "shift_end",
        }
        for row in own.to_dict("records")
        if row["user"] in place and row["index"] <= length
    ]


def _is_regular(truth: pd.DataFrame) -> bool:
    """Return whether the times between queries are regular for at least half of the users."""
    gaps = truth.groupby("user", sort=False)["time_s"].diff().groupby(truth["user"])
    return bool((gaps.std() / gaps.mean()).median() < _REGULAR)


def _pack_km(values: FloatArray, distance: str) -> Packed | None:
    """Pack distances in steps of 10 m; None if the page can compute them from the cells."""
    steps = np.clip(np.rint(values / _STEP_KM), 0, 2**16 - 1)
    return None if distance in _FROM_CELLS else pack(steps.astype(np.uint16))


def _letters(value: Any) -> int:
    """Return the approximate number of characters of a value in the page."""
    if isinstance(value, dict):
        return sum(len(key) + 5 + _letters(item) for key, item in value.items())
    if isinstance(value, list):
        return sum(map(_letters, value)) + 2 * len(value)
    return len(str(value))
