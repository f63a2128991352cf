"""End of a run: write the final manifest, tables, figures and report."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pandas as pd

from sim.analysis import budgets
from sim.analysis.adaptation import Adaptation
from sim.analysis.answers.of_run import Answers
from sim.analysis.result import Result
from sim.analysis.services.table import ServiceLosses
from sim.analysis.sweep_labels import swept_words, with_swept_values
from sim.execution.failures import FailedChunks
from sim.execution.notes import Notes, merge_notes
from sim.execution.plan import Chunk
from sim.execution.stopping import Round
from sim.scenario.sweep import Point
from sim.storage.errors import NotApplicable, RunError
from sim.storage.manifest import RunManifest
from sim.storage.ro_crate import write_crate
from sim.storage.run_directory import RunDirectory


def finish(
    directory: RunDirectory,
    manifest: RunManifest,
    swept: list[Point],
    last_round: Round,
    failures: list[dict[str, Any]],
    *,
    figures: bool,
) -> Result:
    """Write the final manifest and the results of all simulated chunks; raise `FailedChunks` if any chunk failed."""
    failed = {failure["chunk"] for failure in failures}
    simulated = [chunk for chunk in last_round.chunks if chunk.id not in failed]
    result = Result(directory)
    directory.write_manifest(
        manifest.updated(
            parts=sorted(chunk.id for chunk in last_round.chunks),
            repetitions=last_round.described(),
            finished=not failures,
            notes=_notes(result, simulated),
            failures=failures,
        )
    )
    try:
        if simulated:
            _note_exceeded_budgets(result, swept)
            write_results(result, figures=figures)
        write_crate(directory)
    except RunError as error:
        if failures:
            raise FailedChunks(directory, failures, len(last_round.chunks), also=str(error)) from error
        raise
    if failures:
        raise FailedChunks(directory, failures, len(last_round.chunks))
    return result


def _notes(result: Result, chunks: list[Chunk]) -> list[dict[str, Any]]:
    """Return the notes of the chunks, merged by point and LPPM: fallbacks, alarms and the worst certified gap."""
    merged: dict[tuple[int, str], Notes] = {}
    for chunk in chunks:
        for lppm, notes in result.notes()[chunk.id].items():
            key = (chunk.point.index, lppm)
            merged[key] = merge_notes(merged[key], notes) if key in merged else notes
    return [{"point": point, "lppm": lppm, **notes} for (point, lppm), notes in sorted(merged.items())]


def _note_exceeded_budgets(result: Result, swept: list[Point]) -> None:
    """Record exceeded quality budgets in the manifest, if any."""
    exceeded = budgets.exceeded_budgets([(point.index, point.scenario) for point in swept], result.shown_summary())
    if exceeded:
        labels = swept_words(pd.DataFrame(exceeded), result.points())
        entries = [entry | {"at": label} for entry, label in zip(exceeded, labels, strict=True)]
        result.run.write_manifest(result.manifest.updated(exceeded_budgets=entries))


def write_results(result: Result, *, figures: bool) -> None:
    """Write the tables and, if `figures`, the figures and the report."""
    result.run.write_csv("summary.csv", result.summary())
    result.run.write_csv("metrics.csv", result.metrics())
    if not (hindsight := result.hindsight()).empty:
        result.run.write_csv("hindsight.csv", with_swept_values(hindsight, result.points()))
    if result.manifest.scenario.world.services:
        with suppress(NotApplicable):  # a summary has no reports
            write_services(result, result.services())
    if result.has_tournament():
        result.run.write_csv("tournament.csv", result.tournament())
    if figures:
        from sim.plots import write_figures

        write_figures(result)
    # Windows of a summary that straddle the shift have no such table; `lppm-sim adaptation` states the reason.
    if not result.shifts().empty:
        with suppress(NotApplicable):
            write_adaptation_results(result, result.adaptation(), figures=figures)
    if figures:
        from sim.report import write

        write(result)


def write_adaptation_results(result: Result, adaptation: Adaptation, *, figures: bool = True) -> None:
    """Write the table of how mechanisms adapt to a shift and, if `figures`, the figure."""
    result.run.write_csv("adaptation.csv", with_swept_values(adaptation.summary, result.points()))
    if figures:
        from sim.plots import write_adaptation

        write_adaptation(result.run, adaptation)


def write_answers(result: Result, answers: Answers) -> None:
    """Write the tables and the figures of the answers about a run."""
    result.run.write_csv("answers.csv", with_swept_values(answers.table, result.points()))
    result.run.write_csv("home_exposure.csv", with_swept_values(answers.home_exposure, result.points()))
    from sim.plots import write_answer_figures

    write_answer_figures(result, answers)


def write_services(result: Result, losses: ServiceLosses) -> None:
    """Write the table of the losses of services."""
    result.run.write_csv("services.csv", with_swept_values(losses.table, result.points()))
