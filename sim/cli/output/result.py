"""Output of `run` at the end: tables, conclusions, notes and the run directory."""

from __future__ import annotations

from sim.analysis import narrative as sentences
from sim.analysis.calibrations import calibration_table
from sim.analysis.calibrations import limits as calibration_limits
from sim.analysis.result import Result
from sim.cli.output.adaptation import print_first_shift
from sim.cli.output.past_queries import print_hindsight
from sim.cli.output.summary import MOST_ATTACKS, print_standings, run_summary_table
from sim.cli.output.tables import print_table
from sim.cli.output.terminal import stdout
from sim.escaping import escape

_MOST_NOTES = 8
_MOST_STRENGTHS = 24


def print_result(result: Result, *, redrawn: bool = True) -> None:
    """Print the tables, conclusions and notes of a run, and its directory; outdated figures are marked as such."""
    console = stdout()
    manifest = result.manifest
    if shows_standings(result):
        table = result.tournament()
        print_standings(table, drawn=redrawn and result.run.has("figures/tournament.png"))
        console.print(escape(sentences.tournament(table, *result.tournament_leads(table))), highlight=False)
    else:
        print_table(run_summary_table(result))
        for line in sentences.comparisons(result.comparable_users()):
            console.print(escape(line), highlight=False)
    if (strengths := calibration_table(manifest, result.points())) is not None:
        if len(strengths.rows) <= _MOST_STRENGTHS:
            print_table(strengths)
        else:
            console.print(f"{len(strengths.rows)} strengths for realised budgets are in the report.", highlight=False)
    if note := result.sample_note():
        console.print(
            f"Means and intervals are over all users; figures of single users and the replay show a {note}.",
            highlight=False,
        )
    if not result.shifts().empty:
        print_first_shift(result)
    if not result.hindsight().empty:
        print_hindsight(result, result.shown_hindsight())
    for line in (
        *sentences.repetitions(manifest),
        *sentences.detected_changes(manifest),
        *sentences.hidden_channels(manifest.scenario),
        *sentences.memories(manifest.scenario, manifest.secrets),
    ):
        console.print(escape(line), highlight=False)
    warnings = [
        *_notes_on_users(result),
        *sentences.warnings(manifest),
        *calibration_limits(manifest, result.points()),
        *sentences.still_wide(manifest, result.points()),
    ]
    for warning in warnings[:_MOST_NOTES]:
        console.print(f"[yellow]note:[/] {escape(warning)}", highlight=False)
    if len(warnings) > _MOST_NOTES:
        console.print(f"{len(warnings) - _MOST_NOTES} more notes are in the report.", highlight=False)
    drawn = [name for name in ("figures", "report.html") if result.run.has(name)]
    *some, last = ["event log", "summary.csv", "metrics.csv", *(drawn if redrawn else [])]
    outdated = f"; {' and '.join(drawn)} are from an earlier run" if drawn and not redrawn else ""
    directory = escape(str(result.run))
    console.print(f"\n{', '.join(some)} and {last} are in {directory}{outdated}", highlight=False, soft_wrap=True)


def shows_standings(result: Result) -> bool:
    """Return whether the main table is that of the tournament: there are too many attacks for columns."""
    return len(result.manifest.scenario.attacks) > MOST_ATTACKS and result.has_tournament()


def _notes_on_users(result: Result) -> list[str]:
    """Return the note on unrecorded prior errors, which determine the users compared at equal loss."""
    return [note] if (note := result.prior_error_note()) else []


def print_shard(shard: tuple[int, int], result: Result) -> None:
    """Print that a shard is complete, the number of missing chunks, and the command that finishes the run."""
    planned = len(result.manifest.parts)
    missing = planned - len(result.run.parts())
    rest = f"{missing:,} of {planned:,} chunks are missing" if missing > 0 else f"all {planned:,} chunks are complete"
    stdout().print(
        f"shard {shard[0]}/{shard[1]} is complete, {rest} in {escape(str(result.run))}.\n"
        "When all shards are complete, run the same command without --shard to write tables, figures and the report.",
        highlight=False,
        soft_wrap=True,
    )
