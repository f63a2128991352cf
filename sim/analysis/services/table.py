"""The table of service losses, and its displayed form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from sim.analysis.answers.excess_risk import wilson
from sim.analysis.moments import UNITS
from sim.analysis.services.collect import (
    CHANGED,
    EVER,
    KEYS,
    LOSS,
    MOSTLY,
    NAMES,
    QUERIES,
    UNANSWERED,
    Collected,
    Services,
    collect,
)
from sim.analysis.services.specifications import Specifications, services_of_run
from sim.analysis.statistics import ENDS, with_spread
from sim.analysis.tables import Cell, Column, Row, metric_column, table_spread_note, text_column
from sim.components.files import Place
from sim.storage.run_directory import RunDirectory

_WITH_ENDS = (LOSS, CHANGED, EVER, MOSTLY)
COLUMNS = [
    *("service", "kind", "unit", "point", "lppm"),
    *(f"{name}{end}" for name in _WITH_ENDS for end in ENDS),
    *(UNANSWERED, "users", QUERIES, "replications"),
]
_AT_MOST_1 = ("share", "0/1")


@dataclass(frozen=True, slots=True)
class ServiceLosses:
    """Losses of services in a run."""

    table: pd.DataFrame
    """A row per service, point and LPPM.

    `loss` is the mean loss in `unit`, `changed` the share of queries whose answer differs from that to the true
    location; both with 95 % confidence intervals over users and replications (`_low`, `_high`). `users_ever` and
    `users_mostly` are the shares of users for whom the answer to any query, or to more than half of the queries, is
    changed, with Wilson's intervals. `unanswered` is the share of queries without an answer.
    """
    shown: pd.DataFrame
    """The same with the spread that tables show: the range over users replaces intervals of few users."""
    notes: tuple[str, ...]
    """The treatment of reports other than locations, as sentences."""


def service_losses(run: RunDirectory, given: Specifications | None, place: Place) -> ServiceLosses:
    """Read the log of a run and return the losses of services; see `services_of_run` for the arguments.

    Raises NotApplicable for a summary, which has no cells, and RequestError without any service.
    """
    services = services_of_run(run, given, place)
    collected = collect(run, services)
    table = _table(collected, services)
    return ServiceLosses(table, _shown(table, pd.concat(collected.few)), tuple(_notes(collected, table)))


def _table(collected: Collected, services: Services) -> pd.DataFrame:
    assert collected.moments is not None
    means = collected.moments.intervals(NAMES, replications=collected.effects)
    counts = collected.moments.frame[[UNITS, QUERIES]].rename(columns={UNITS: "users"}).reset_index()
    table = means.merge(counts, on=KEYS, validate="one_to_one")
    for name in (EVER, MOSTLY):
        rates = [wilson(share * users, users) for share, users in zip(table[name], table["users"], strict=True)]
        table[f"{name}_low"], table[f"{name}_high"] = [rate.low for rate in rates], [rate.high for rate in rates]
    keys = list(zip(table["point"], table["service"], table["lppm"], strict=True))
    simulated = [(point, lppm) for point, lppm, _ in collected.replications]
    table["kind"] = [services[point][name].kind for point, name, _ in keys]
    table["unit"] = [services[point][name].unit for point, name, _ in keys]
    table["replications"] = [simulated.count((point, lppm)) for point, _, lppm in keys]
    order = {name: number for number, name in enumerate(next(iter(services.values())))}
    ranked = table.assign(_service=table["service"].map(order)).sort_values(
        ["_service", "point", "lppm"], kind="stable"
    )
    return ranked[COLUMNS].reset_index(drop=True)


def _shown(table: pd.DataFrame, few: pd.DataFrame) -> pd.DataFrame:
    shown = with_spread(table, few, (LOSS, CHANGED), KEYS)
    is_share = shown["unit"].isin(_AT_MOST_1)
    shown[f"{LOSS}_high"] = shown[f"{LOSS}_high"].where(~is_share, shown[f"{LOSS}_high"].clip(upper=1))
    return shown


def _notes(collected: Collected, table: pd.DataFrame) -> Iterator[str]:
    kinds = {space.kind for space in collected.spaces.values()}
    if "regions" in kinds:
        yield "A reported region is answered for its centre."
    if "sets" in kinds:
        yield "A report of several places has an answer for each: the user keeps the best one."
    for units, meaning in ((("share", "0/1"), "count as a loss of 1"), (("km", "tariff"), "have no loss")):
        some = table[table["unit"].isin(units) & (table[UNANSWERED] > 0)]
        if len(some):
            names = ", ".join(dict.fromkeys(some["service"]))
            yield f"Queries without a report have no answer, which counts as changed: they {meaning} ({names})."


def service_columns(labels: Sequence[Column]) -> list[Column]:
    """Return the columns of the table; `labels` name the mechanism and swept values."""
    return [
        text_column("service", "service", names_row=True),
        *labels,
        metric_column("loss", LOSS, 3, meaning="mean loss"),
        text_column("unit", "unit"),
        metric_column("changed", CHANGED, 3, meaning="share of queries whose answer differs"),
        _users_column("users ever", EVER, "share of users with any answer that differs"),
        _users_column("users mostly", MOSTLY, "share of users with more than half of the answers different"),
        Column("no answer", _unanswered_cell, meaning="share of queries without an answer"),
        Column("users", lambda row: Cell(f"{row['users']:.0f}", sort_key=row["users"])),
    ]


def service_caption(shown: pd.DataFrame) -> str:
    """Return the caption of the table."""
    several = (shown["replications"] > 1).any()
    return (
        "Loss of the users of services: mean over queries, share of queries whose answer differs from that to the true "
        "location, and shares of users with any and with more than half of the answers different (Wilson's intervals); "
        f"loss and changed: {table_spread_note(shown, 'users and replications' if several else 'users')}"
    )


def _users_column(heading: str, key: str, meaning: str) -> Column:
    """Return a column of shares of users, whose intervals do not need a number of users."""

    def cell(row: Row) -> Cell:
        share, low, high = (row[f"{key}{end}"] for end in ENDS)
        return Cell(f"{share:.2f}", f"[{low:.2f}, {high:.2f}]", f"{share:.6g}")

    return Column(heading, cell, meaning=meaning)


def _unanswered_cell(row: Row) -> Cell:
    value: Any = row[UNANSWERED]
    return Cell(f"{value:.3f}", sort_key=f"{value:.6g}") if value > 0 and not np.isnan(value) else Cell(sort_key="")
