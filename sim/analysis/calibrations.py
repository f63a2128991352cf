"""Table and sentences on the strengths that replace realised budgets."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from sim.analysis.sweep_labels import swept_words
from sim.analysis.tables import Cell, Column, Row, Table, lppm_column, text_column
from sim.storage.manifest import Calibration, RunManifest


def calibration_table(manifest: RunManifest, points: pd.DataFrame) -> Table | None:
    """Return a table of the strengths found, with the loss reached; None without realised budgets."""
    entries = manifest.calibrations
    if not entries:
        return None
    rows = [entry.model_dump() for entry in entries]
    words = swept_words(pd.DataFrame(rows), points)
    columns = [
        lppm_column(),
        *([text_column("sweep", "words")] if any(words) else []),
        Column("asked", _asked, "km", "budget of the loss in the run"),
        text_column("parameter", "parameter"),
        Column("strength", lambda row: _number(row["strength"], "{:.5g}"), "", "value found"),
        Column("loss", _loss, "km", "loss in the simulations of the search, with its 95 % confidence interval"),
        Column("tried", lambda row: _number(row["strengths_tried"], "{:d}"), "", "strengths simulated"),
    ]
    return Table(columns, [row | {"words": text} for row, text in zip(rows, words, strict=True)], _caption(entries))


def limits(manifest: RunManifest, points: pd.DataFrame) -> list[str]:
    """Return a sentence for each realised budget that was not met exactly."""
    missed = [entry for entry in manifest.calibrations if entry.outcome != "reached"]
    if not missed:
        return []
    words = swept_words(pd.DataFrame([entry.model_dump() for entry in missed]), points)
    return [
        f"{entry.lppm}{text and f' ({text})'}: the realised budget of {entry.asked_km:g} km is not reached: "
        f"{_reason(entry)}"
        for entry, text in zip(missed, words, strict=True)
    ]


def _reason(entry: Calibration) -> str:
    at = f"the loss is {entry.loss_km:.4g} km at {entry.parameter} {entry.strength:.4g}"
    if entry.outcome == "unreachable":
        return f"{at}, and no other value loses more"
    return f"{at}, and the next value loses more than the budget"


def _caption(entries: Sequence[Calibration]) -> str:
    simulated = sorted({(entry.replications, entry.users, entry.of_users) for entry in entries})
    each = " or ".join(
        f"{replications} replication{'s' if replications > 1 else ''} of {_users(users, of_users)}"
        for replications, users, of_users in simulated
    )
    over = "users" if any(entry.users < entry.of_users for entry in entries) else "replications"
    return f"Strengths for realised budgets; each was found by simulations of {each}; ± 95 % interval over {over}"


def _users(users: int, of_users: int) -> str:
    return f"{of_users:,} users" if users == of_users else f"a sample of {users:,} of {of_users:,} users"


def _asked(row: Row) -> Cell:
    share = "" if row["at"] is None else f"for {100 * row['at']:g} % of users"
    return Cell(f"{row['asked_km']:g}", share, f"{row['asked_km']:.6g}")


def _loss(row: Row) -> Cell:
    half = max(row["loss_km_high"] - row["loss_km"], row["loss_km"] - row["loss_km_low"])
    mark = "" if row["outcome"] == "reached" else "the budget is not reached"
    return Cell(f"{row['loss_km']:.3f}", f"± {half:.3f}" if half > 0 else "exact", f"{row['loss_km']:.6g}", mark)


def _number(value: float, form: str) -> Cell:
    return Cell(form.format(value), sort_key=value)
