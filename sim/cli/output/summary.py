"""The main tables of a run: quality loss and adversary error, and the tournament of mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from sim.analysis.budgets import exceeded
from sim.analysis.equal_loss_tables import (
    beside_columns,
    beside_note,
    compared_users_note,
    off_curve_note,
    strongest_error_column,
)
from sim.analysis.result import Result
from sim.analysis.sweep_labels import with_swept_values
from sim.analysis.tables import (
    Row,
    Table,
    loss_and_error_by_row,
    loss_and_error_columns,
    lppm_column,
    rank_columns,
    rows_by_attack,
    summary_caption,
    swept_columns,
    text_column,
    with_swept_cells,
)
from sim.cli.output.tables import print_table, swept_paths
from sim.cli.output.terminal import stdout

MOST_ATTACKS = 5
"""Maximum number of attacks with a column each; more would exceed the width of a terminal."""


def print_summary(
    summary: pd.DataFrame,
    points: pd.DataFrame,
    lppms: Sequence[str],
    attacks: Sequence[str],
    over_budget: Mapping[tuple[int, str], float] | None = None,
) -> None:
    """Print `summary_table`."""
    print_table(summary_table(summary, points, lppms, attacks, over_budget))


def run_summary_table(result: Result) -> Table:
    """Return the table of loss and error of a run."""
    manifest = result.manifest
    lppms, attacks = ([one.name for one in named] for named in (manifest.scenario.lppms, manifest.scenario.attacks))
    return summary_table(result.shown_summary(), result.points(), lppms, attacks, exceeded(manifest))


def summary_table(
    summary: pd.DataFrame,
    points: pd.DataFrame,
    lppms: Sequence[str],
    attacks: Sequence[str],
    over_budget: Mapping[tuple[int, str], float] | None = None,
) -> Table:
    """Return the quality loss of each mechanism and the error of each attack, in km, with their spread.

    `summary` comes from `with_spread`. LPPMs and attacks keep the given order; those introduced by a sweep follow. A
    swept value is shown for the mechanisms it affects. Losses that exceed a budget in `over_budget`, by point and LPPM,
    are marked. With more than five attacks, each has a row instead of a column.
    """
    attacks = list(dict.fromkeys([*attacks, *filter(None, summary["attack"])]))
    places = {lppm: place for place, lppm in enumerate(dict.fromkeys([*lppms, *summary["lppm"]]))}
    ordered = summary.assign(place=summary["lppm"].map(places)).sort_values(["place", "point"], kind="stable")
    keys = ["lppm", "point"]
    values = {(row["lppm"], row["point"]): row for row in with_swept_values(summary[keys], points).to_dict("records")}
    labels = [lppm_column(), *swept_columns(swept_paths(points))]

    def exceeded_km(row: Row) -> float | None:
        return (over_budget or {}).get((row["point"], row["lppm"]))

    if len(attacks) > MOST_ATTACKS:
        order = {attack: place for place, attack in enumerate(attacks)}
        ordered = ordered.assign(attack_place=ordered["attack"].map(order)).sort_values(
            ["place", "point", "attack_place"], kind="stable"
        )
        rows: Sequence[Row] = ordered.to_dict("records")
        columns = [*labels, *loss_and_error_by_row(exceeded_km)]
        section: Callable[[Row], object] = lambda row: (row["lppm"], row["point"])  # noqa: E731
    else:
        rows = rows_by_attack(ordered, keys)
        columns = [*labels, *loss_and_error_columns(attacks, exceeded_km)]
        section = lambda row: row["lppm"]  # noqa: E731
    cells = with_swept_cells(rows, [values[row["lppm"], row["point"]] for row in rows])
    return Table(columns, cells, summary_caption(summary, over_budget=bool(over_budget)), section=section)


def print_standings(table: pd.DataFrame, *, drawn: bool) -> None:
    """Print a table of `tournament.standings`: each mechanism against its strongest attack."""
    print_table(standings_table(table))
    files = "tournament.csv and figures/tournament" if drawn else "tournament.csv"
    stdout().print(f"All attacks are in {files}, confidence intervals in summary.csv.", highlight=False)


def standings_table(table: pd.DataFrame) -> Table:
    """Return the standings of a tournament: each mechanism against its strongest attack."""
    loss = table.loc[table["rank"].notna(), "quality_loss_km"]
    same = len(loss) > 1 and loss.max() - loss.min() < 1e-9
    return Table(
        [
            *rank_columns(3),
            strongest_error_column(),
            text_column("strongest attack", "strongest"),
            *beside_columns(table),
        ],
        table.to_dict("records"),
        "Quality loss Q-bar and adversary error P_AE of the strongest attack, in km; "
        + (f"ranked at {loss.iloc[0]:g} km of loss" if same else "each at its configured loss")
        + compared_users_note(table)
        + off_curve_note(table),
        hint=beside_note(table),
    )
