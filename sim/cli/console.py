"""What a person sees in the terminal: progress, tables, errors. Progress goes to stderr, results to stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from sim.analysis import budgets
from sim.analysis import narrative as sentences
from sim.analysis.adaptation import OF_USER, Adaptation
from sim.analysis.event_log import SERIES
from sim.analysis.metrics import METRICS, told, untold
from sim.analysis.narrative import span
from sim.analysis.result import Result
from sim.analysis.statistics import INTERVAL, OWN_VALUES, SPREAD, are_few, with_spread
from sim.analysis.sweep_labels import in_order, path_headings, swept_value, with_swept_values
from sim.analysis.tables import format_metric, spread_note
from sim.checks import Outcome
from sim.escaping import escape, visible
from sim.execution.cost.estimate import BYTES_PER_ROW, Cost, installed_bytes
from sim.scenario.models import RepeatUntil, Scenario
from sim.scenario.protection import SHORT_ATTACKS, SHORT_IDENTIFICATIONS, SHORT_LPPMS
from sim.scenario.reference import SECTIONS, keys, kinds
from sim.storage.run_directory import DamagedRun, RunError
from sim.storage.status import failed_where

if TYPE_CHECKING:
    from sim.bench import Outcome as Measured
    from sim.bench.costs import Cost as PartCost
    from sim.storage.status import Status

LINE_EVERY_S = 10.0
_MOST_TOLD = 5
_MOST_ATTACKS = 5
"""With more, the table of all would be wider than a terminal."""
_MOST_NOTES = 8
_MOST_ADAPTED = 30


class _Rate(ProgressColumn):
    """Queries per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} queries/s" if speed else "", style="progress.data.speed")


class Bar:
    """A progress bar on a terminal; a plain line now and then elsewhere."""

    def __init__(self, label: str) -> None:
        self._label = visible(label)
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._done = self._total = self._pending = 0
        self._chunks_done = self._chunks = 0
        self._began = self._said = 0.0

    def __enter__(self) -> Bar:
        return self

    def start(self, queries: int, *, chunks: int = 0, skipped: int = 0) -> None:
        """Show that so many queries, or so many more, are to be simulated, and what an earlier run has left."""
        self._total += queries
        self._chunks += chunks
        if skipped:
            rest = "going on with the rest" if queries else "nothing is left to simulate"
            kept = "1 part is there already" if skipped == 1 else f"{skipped:,} parts are there already"
            print(f"{self._label}: {kept}, {rest}", file=sys.stderr, flush=True)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], total=self._total, chunks=self._counted_chunks())
        if self._total > queries:
            return
        self._began = self._said = time.monotonic()
        if self._console.is_terminal and queries:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[chunks]}"),
                MofNCompleteColumn(),
                _Rate(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=self._console)
            self._bar.add_task(escape(self._label), total=queries, chunks=self._counted_chunks())
            self._bar.start()

    def advance(self, queries: int) -> None:
        """Count queries; the screen is told of every hundredth."""
        self._pending += queries
        if self._pending >= 100 or self._done + self._pending >= self._total:
            self._done += self._pending
            if self._bar is not None:
                self._bar.advance(self._bar.task_ids[0], self._pending)
            elif time.monotonic() - self._said >= LINE_EVERY_S:
                self._line()
            self._pending = 0

    def end_chunk(self) -> None:
        """Count a chunk."""
        self._chunks_done += 1
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], chunks=self._counted_chunks())
        elif time.monotonic() - self._said >= LINE_EVERY_S:
            self._line()

    def _counted_chunks(self) -> str:
        return f"{self._chunks_done:,}/{self._chunks:,} chunks"

    def _line(self) -> None:
        self._said = time.monotonic()
        rate = self._done / max(self._said - self._began, 1e-9)
        left = (self._total - self._done) / rate if rate else 0
        counted = f"{self._counted_chunks()}, {self._done:,}/{self._total:,} queries"
        print(f"{self._label}: {counted}, {rate:,.0f} queries/s, {left:,.0f} s left", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def print_summary(
    summary: pd.DataFrame,
    points: pd.DataFrame,
    lppms: Sequence[str],
    attacks: Sequence[str],
    over_budget: Collection[tuple[int, str]] = (),
) -> None:
    """Print the table: quality loss of each mechanism, and the error of each adversary, in km, with their spread.

    Takes a summary of `with_spread`. LPPMs and attacks come in the order given, then those that a sweep has brought
    in. A swept value stands beside the mechanisms it makes a difference to. Losses above the budget, given as points
    and LPPMs, are marked.
    """
    swept = path_headings([path for path in points.columns if path != "point"])
    valued = with_swept_values(summary[["lppm", "point"]], points).to_dict("records")
    values = {(row["lppm"], row["point"]): row for row in valued}
    attacks = list(dict.fromkeys([*attacks, *filter(None, summary["attack"])]))
    table = Table()
    table.add_column("LPPM")
    for heading in (*swept.values(), "Q-bar", *(f"P_AE {attack}" for attack in attacks)):
        table.add_column(escape(heading), justify="right")
    for lppm in dict.fromkeys([*lppms, *summary["lppm"]]):
        for point, rows in summary[summary["lppm"] == lppm].groupby("point", sort=True):
            by_attack = {row["attack"]: row for _, row in rows.iterrows()}
            table.add_row(
                escape(lppm),
                *(_value(values[lppm, point][path]) for path in swept),
                _figure(rows.iloc[0], "quality_loss_km") + (" !" if (point, lppm) in over_budget else ""),
                *(_figure(by_attack[name], "adversary_error_km") if name in by_attack else "" for name in attacks),
            )
        table.add_section()
    expected = summary["expected_quality_loss_km"].notna().any()
    console = stdout()
    units = "replications" if (summary["users"] == 1).all() else "users"
    console.print(
        f"Quality loss Q-bar and adversary error P_AE, in km; {spread_note(_spreads(summary), units)}"
        + ("; means expected over the mechanism's noise" if expected else "")
        + ("; ! above the quality budget asked for" if over_budget else ""),
        style="italic",
        highlight=False,
    )
    console.print(table)


def _value(value: Any) -> str:
    return "" if pd.isna(value) else escape(swept_value(value))


def _figure(row: pd.Series[float], name: str) -> str:
    """Write a figure with its spread; the expected one where there is one, which has less noise."""
    best = f"expected_{name}" if pd.notna(row.get(f"expected_{name}")) else name
    return _with_spread(row.to_dict(), best, 3)


def _with_spread(row: dict[Any, Any], name: str, digits: int, *, signed: bool = False) -> str:
    """Write a figure, with its spread where it has one."""
    return " ".join(filter(None, format_metric(row, name, digits, signed=signed)))


def _spreads(table: pd.DataFrame) -> list[str]:
    return list(table[SPREAD]) if SPREAD in table else [INTERVAL]


def print_result(result: Result, *, redrawn: bool = True) -> None:
    """Print what a run found, in a table and a sentence per attack, and where it lies; old figures are called so."""
    console = stdout()
    scenario = result.manifest["scenario"]
    names = {key: [thing["name"] for thing in scenario[key]] for key in ("lppms", "attacks")}
    table = result.tournament()
    if len(names["attacks"]) > _MOST_ATTACKS and not table.empty:
        print_standings(table, drawn=redrawn and result.run.has("figures/tournament.png"))
        console.print(escape(sentences.tournament(table, *result.tournament_leads(table))), highlight=False)
    else:
        over = budgets.exceeded(result.manifest)
        print_summary(result.shown_summary(), result.points(), names["lppms"], names["attacks"], over)
        users = in_order(result.totals().users, result.run)
        for line in sentences.comparisons(sentences.comparable(users, result.points())):
            console.print(escape(line), highlight=False)
    if not result.shifts().empty:
        _print_own_adaptation(result)
    if not result.hindsight().empty:
        print_hindsight(result, result.shown_hindsight())
    remarks = (sentences.repetitions, sentences.found_changes, sentences.hidden_channels)
    for line in (line for said in remarks for line in said(result.manifest)):
        console.print(escape(line), highlight=False)
    warnings = [*sentences.warnings(result.manifest), *sentences.still_wide(result.manifest, result.points())]
    for warning in warnings[:_MOST_NOTES]:
        console.print(f"[yellow]note:[/] {escape(warning)}", highlight=False)
    if len(warnings) > _MOST_NOTES:
        console.print(f"{len(warnings) - _MOST_NOTES} more such notes are in the report.", highlight=False)
    drawn = [name for name in ("figures", "report.html") if result.run.has(name)]
    *some, last = ["event log", "summary.csv", "metrics.csv", *(drawn if redrawn else [])]
    older = f"; {' and '.join(drawn)} there are older" if drawn and not redrawn else ""
    place = escape(str(result.run))
    console.print(f"\n{', '.join(some)} and {last} are in {place}{older}", highlight=False, soft_wrap=True)


def print_standings(table: pd.DataFrame, *, drawn: bool) -> None:
    """Print who protects best against the attack that is strongest on it; takes a table of `tournament.standings`."""
    shown = Table()
    for heading in ("rank", "LPPM", "Q-bar", "P_AE", "of the strongest attack"):
        shown.add_column(heading, justify="left" if heading in ("LPPM", "of the strongest attack") else "right")
    for row in table.to_dict("records"):
        rank = "" if pd.isna(row["rank"]) else str(row["rank"])
        figures = (f"{row[name]:.3f}" for name in ("quality_loss_km", "adversary_error_km"))
        shown.add_row(rank, escape(str(row["lppm"])), *figures, escape(str(row["strongest"])))
    loss = table.loc[table["rank"].notna(), "quality_loss_km"]
    same = len(loss) > 1 and loss.max() - loss.min() < 1e-9
    console = stdout()
    console.print(
        "Quality loss Q-bar and adversary error P_AE of the strongest attack, in km; "
        + (f"ranked at {loss.iloc[0]:g} km of loss" if same else "each at its own loss"),
        style="italic",
        highlight=False,
    )
    console.print(shown)
    places = "tournament.csv and figures/tournament" if drawn else "tournament.csv"
    console.print(f"All attacks are in {places}, with intervals in summary.csv.", highlight=False)


def _print_own_adaptation(result: Result) -> None:
    """Print how mechanisms followed the first shift, if that can be told and is not too long."""
    try:
        found = result.adaptation()
    except DamagedRun:
        raise
    except RunError as error:
        stdout().print(f"[yellow]note:[/] {escape(f'how mechanisms adapt cannot be told: {error}')}", highlight=False)
        return
    if len(found.summary) <= _MOST_ADAPTED:
        print_adaptation(result, found)
    else:
        stdout().print(f"{len(found.summary)} rows of how mechanisms adapt are in adaptation.csv.", highlight=False)


def print_adaptation(result: Result, found: Adaptation, against: str | None = None) -> None:
    """Print the efficiency of each mechanism around a shift, how long it takes to recover, and what is lost."""
    points = result.points()
    swept = path_headings([path for path in points.columns if path != "point"])
    summary = in_order(with_spread(found.summary, found.users, OF_USER, SERIES), result.run)
    valued = with_swept_values(summary[["lppm", "point"]], points).to_dict("records")
    against = summary["lppm"].iloc[0] if against is None else against
    compared = found.compare(against) if against in set(found.users["lppm"]) else pd.DataFrame()
    differences = {(row["point"], row["attack"], row["lppm"]): row for row in _differences(compared)}
    table = Table()
    table.add_column("LPPM")
    table.add_column("attack")
    numbers = ("before", "lowest", "at the end", "recover", "mean", f"minus {against}", "not back", "together", "lost")
    for heading in (*swept.values(), *numbers):
        table.add_column(escape(heading), justify="right")
    for values, row in zip(valued, summary.to_dict("records"), strict=True):
        apart = differences.get((row["point"], row["attack"], row["lppm"]))
        together = "" if pd.isna(row["pooled_queries_to_recover"]) else f"{row['pooled_queries_to_recover']:.0f}"
        table.add_row(
            escape(row["lppm"]),
            escape(row["attack"]),
            *(_value(values[path]) for path in swept),
            _with_spread(row, "efficiency_before", 3),
            _with_spread(row, "efficiency_lowest", 3),
            _with_spread(row, "efficiency_end", 3),
            "" if pd.isna(row["queries_to_recover_median"]) else f"{row['queries_to_recover_median']:.0f}",
            _with_spread(row, "queries_to_recover", 0),
            "" if apart is None else _with_spread(apart, "queries_to_recover", 0, signed=True),
            f"{row['censored']} of {row['users']}",
            f"> {together}" if row["pooled_censored"] and together else together,
            _with_spread(row, "queries_lost", 1),
        )
    shifts = ", ".join(dict.fromkeys(found.summary["shift"]))
    console = stdout()
    console.print(
        escape(
            f"Efficiency P_AE / Q-bar before and after {shifts}; queries until a window of {found.window} is back at "
            f"{100 * found.recovered:g} %: median and mean over users, those not back counted with all they have, and "
            f"of all users together; queries lost until then; {spread_note(_spreads(summary))}"
        ),
        style="italic",
        highlight=False,
    )
    console.print(table, highlight=False)
    if left_out := int(found.summary["left_out"].max()):
        console.print(
            f"Who has no loss before the shift, or not {found.window} queries from it to the next change or the end, "
            f"is left out: {left_out} of the users at most.",
            highlight=False,
        )


def _differences(compared: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of a comparison of mechanisms, without intervals where users are few."""
    if compared.empty:
        return []
    nobody = pd.DataFrame({name: pd.Series(dtype=float) for name in ("point", "attack", "lppm")})
    return with_spread(compared, nobody, OF_USER, ["point", "attack", "lppm"], signed=True).to_dict("records")


def print_hindsight(result: Result, found: pd.DataFrame) -> None:
    """Print the error about past queries of each adversary who comes back to them, unless that is too long."""
    console = stdout()
    if len(found) > _MOST_ADAPTED:
        console.print(f"{len(found)} rows about past queries are in hindsight.csv.", highlight=False)
        return
    points = result.points()
    swept = path_headings([path for path in points.columns if path != "point"])
    found = in_order(found, result.run)
    valued = with_swept_values(found[["lppm", "point"]], points).to_dict("records")
    table = Table()
    table.add_column("LPPM")
    table.add_column("attack")
    for heading in (*swept.values(), "reports later", "P_AE(r, s)", "P_AE(s, s)", "gain", "users"):
        table.add_column(escape(heading), justify="right")
    for values, row in zip(valued, found.to_dict("records"), strict=True):
        table.add_row(
            escape(row["lppm"]),
            escape(row["attack"]),
            *(_value(values[path]) for path in swept),
            row["lag"],
            _with_spread(row, "adversary_error_km", 3),
            _with_spread(row, "online_error_km", 3),
            _with_spread(row, "gain_km", 3),
            str(row["users"]),
        )
    console.print(
        "Adversary error about past queries s, in km: so many reports later or at the last one (final), and when they "
        f"were asked, gains paired by query; {spread_note(_spreads(found))}",
        style="italic",
        highlight=False,
    )
    console.print(table, highlight=False)


def print_metrics(result: Result) -> None:
    """Print more figures of each mechanism and adversary, those in km apart from the others, and what each says."""
    console = stdout()
    found, points = in_order(result.shown_metrics(), result.run), result.points()
    swept = path_headings([path for path in points.columns if path != "point"])
    valued = with_swept_values(found[["lppm", "point"]], points).to_dict("records")
    shown = told(found)
    distances = [name for name in shown if name.endswith(("_loss_km", "_error_km"))]
    console.print(f"More metrics; {spread_note(_spreads(found))}", style="italic", highlight=False)
    for names in filter(None, (distances, [name for name in shown if name not in distances])):
        table = Table()
        for heading in ("LPPM", "attack"):
            table.add_column(heading)
        for heading in (*swept.values(), *(METRICS[name].heading for name in names)):
            table.add_column(escape(heading), justify="right")
        for values, row in zip(valued, found.to_dict("records"), strict=True):
            figures = (_with_spread(row, name, METRICS[name].digits) for name in names)
            table.add_row(
                escape(row["lppm"]), escape(row["attack"]), *(_value(values[path]) for path in swept), *figures
            )
        console.print(table, highlight=False)
    for name in shown:
        console.print(f"{METRICS[name].heading:>20}  {METRICS[name].words}", highlight=False)
    for line in untold(found, result.manifest):
        console.print(f"[yellow]note:[/] {escape(line)}", highlight=False)


def print_at_loss(compared: pd.DataFrame) -> None:
    """Print the adversary's error of each mechanism at some quality losses, and its difference to one of them."""
    console = stdout()
    table = Table()
    said = compared["circumstances"].astype(bool).any()
    against = compared["against"].iloc[0] if len(compared) else ""
    compared = _at_loss_shown(compared)
    for heading in (*(["with"] if said else []), "attack"):
        table.add_column(heading)
    table.add_column("Q-bar", justify="right")
    table.add_column("LPPM")
    for heading in ("P_AE", f"minus {against}", "users"):
        table.add_column(escape(heading), justify="right")
    for _, rows in compared.groupby(["circumstances", "attack", "quality_loss_km"], sort=False):
        for row in rows.to_dict("records"):
            of_this = f" ({row['reached']} with this one)" if row["reached"] > row["users"] else ""
            table.add_row(
                *([escape(row["circumstances"])] if said else []),
                escape(row["attack"]),
                f"{row['quality_loss_km']:g}",
                escape(row["lppm"]),
                _with_spread(row, "error_km", 3),
                "" if row["lppm"] == against else _with_spread(row, "difference_km", 3),
                f"{row['users']} of {row['of_users']}{of_this}",
            )
        table.add_section()
    console.print(
        "Adversary error P_AE at equal quality loss Q-bar, in km, off each user's own curve, over the users who reach "
        f"it with every LPPM; differences paired by user; {spread_note(_spreads(compared))}",
        style="italic",
        highlight=False,
    )
    console.print(table, highlight=False)


def _at_loss_shown(compared: pd.DataFrame) -> pd.DataFrame:
    """Return a table of `ranking.at_loss` with the users' own extremes instead of intervals where users are few."""
    few = compared["users"].map(are_few)
    found = compared.assign(**{SPREAD: few.map({True: OWN_VALUES, False: INTERVAL})})
    for name in ("error_km", "difference_km"):
        for end, extreme in (("_low", "_min"), ("_high", "_max")):
            found[name + end] = found[name + end].where(~few, found[name + extreme])
    return found


def print_shard(shard: tuple[int, int], result: Result) -> None:
    """Print that a share is done, how much the whole lacks, and what sums it up."""
    planned = len(result.manifest["parts"])
    missing = planned - len(result.run.parts())
    rest = f"{missing:,} of {planned:,} chunks are still missing" if missing > 0 else f"all {planned:,} are there"
    stdout().print(
        f"shard {shard[0]}/{shard[1]} is done, {rest} in {escape(str(result.run))}.\n"
        "When all shards have ended, the same command without --shard sums up and draws.",
        highlight=False,
        soft_wrap=True,
    )


def print_listing(families: dict[str, tuple[str, dict[str, str]]]) -> None:
    """Print families of components, their place in a scenario, and a line for each kind."""
    console = stdout()
    for family, (place, members) in families.items():
        console.print(f"[bold]{family}[/]  ({escape(place)})", highlight=False)
        table = Table(box=None, show_header=False, padding=(0, 2))
        for kind, line in members.items():
            table.add_row(escape(kind), escape(line))
        console.print(table, highlight=False)


def print_keys(family: str, kind: str, line: str) -> None:
    """Print the keys of one kind: what is allowed, the default, the meaning. A short name has those of its parts."""
    console = stdout()
    console.print(f"[bold]{escape(kind)}[/]  {escape(line)}", highlight=False)
    short = {"lppm": SHORT_LPPMS, "attack": SHORT_ATTACKS}.get(family, {}).get(kind)
    section = "identification" if kind in SHORT_IDENTIFICATIONS else kind
    alone = SECTIONS[section][1] if family == "attack" and short is None else None
    specs = {"": alone or kinds(family)[kind]} if short is None else {"": SECTIONS[family][1]}
    if short is not None:
        specs |= {f"{part}.": kinds(part)[short[part]["kind"]] for part in ("belief", "design") if part in short}
    table = Table()
    for heading in ("key", "allowed", "default", "meaning"):
        table.add_column(heading)
    for prefix, spec in specs.items():
        for key in keys(spec):
            table.add_row(*map(escape, (prefix + key.name, key.allowed, key.default, key.meaning)))
    if table.row_count:
        console.print(table, highlight=False)
    else:
        console.print("It has no keys.", highlight=False)


def print_not_loaded(scenario: Scenario, names: Sequence[str]) -> None:
    """Print that a scenario is valid as far as that is known without importing its custom components."""
    print(
        f"{scenario.name} is valid as far as it can be checked without running its custom code, which was not loaded:"
    )
    for name in names:
        print(f"  {name}  ({scenario.place.code.located(name)})")
    print("If you trust this code, add --allow-code to check it too and to estimate time and disk.")


def print_cost(scenario: Scenario, cost: Cost) -> None:
    """Print what a scenario would take."""
    console = stdout()
    least = cost.least or cost
    about = "about " if cost.approximate else ""
    size = span(least.rows, cost.rows, lambda rows: _size(rows * BYTES_PER_ROW))
    for name, *texts in (
        ("scenario", f"{scenario.name} is valid ({_digest(scenario)}seed {scenario.seed})"),
        ("points", f"{cost.points} x {_replications(scenario)}"),
        *(
            ("exact", f"{name}: its expected figures need no repetition, it is run once (see docs/performance.md)")
            for name in cost.exact
        ),
        ("users", f"{cost.users:,}" if cost.users else "not counted"),
        (
            "queries",
            f"{about}{span(least.queries, cost.queries)}" if cost.queries else "not counted",
            f" in {span(least.simulations, cost.simulations)} simulations",
        ),
        (
            "event log",
            f"{about}{span(least.rows, cost.rows)} rows, about {size}" if cost.rows else "not counted",
        ),
        ("memory", f"about {_size(cost.peak_bytes, digits=0)} in each process that simulates"),
        *(("note", note) for note in _more_than_installed(cost.peak_bytes)),
        ("time", _time(least, cost)),
        *(("note", f"not measured: {what}") for what in cost.unmeasured),
        *(("note", note) for note in sentences.left_out(cost.readings)),
        *(("note", note) for note in sentences.hidden_channels({"scenario": scenario.model_dump(mode="json")})),
    ):
        console.print(f"{name:>10}  {escape(''.join(texts))}", highlight=False)


def _digest(scenario: Scenario) -> str:
    """Return the digest of a run that reads no files; that of others depends on what is in them."""
    return "" if scenario.files() or scenario.own_components() else f"digest {scenario.digest[:8]}, "


def _size(size_bytes: float, *, digits: int = 1) -> str:
    """Write bytes as megabytes, or as gigabytes where there are thousands of them.

    >>> _size(12.34e6), _size(5.2e9), _size(261_497e6)
    ('12.3 MB', '5.2 GB', '261.5 GB')
    """
    return f"{size_bytes / 1e9:,.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:,.{digits}f} MB"


def _more_than_installed(peak_bytes: int) -> list[str]:
    """Warn where a process needs more memory than the machine has."""
    installed = installed_bytes()
    if installed is None or peak_bytes <= installed:
        return []
    return [f"that is more memory than this machine has ({_size(installed)}): reduce users, queries or cells"]


def _time(least: Cost, cost: Cost) -> str:
    """Say how long a scenario takes on one core; a lower bound where something was not measured."""
    if cost.seconds is None:
        return "not measured"
    bound = "at least" if cost.incomplete else "about"
    return f"{bound} {span(least.seconds, cost.seconds, duration)} (measured on a few users)"


def print_remarks(remarks: Sequence[str]) -> None:
    """Print what `check` finds odd in a scenario that is valid, in the lines of `print_cost`."""
    for remark in remarks:
        stdout().print(f"{'note':>10}  {escape(remark)}", highlight=False)


def _replications(scenario: Scenario) -> str:
    said = scenario.replications
    if not isinstance(said, RepeatUntil):
        return f"{said} replications"
    number = span(said.at_least, said.at_most)
    return f"{number} replications, until all figures are within ± {said.until_half_width_km:g} km"


def duration(seconds: float) -> str:
    """Return a length of time in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def print_status(status: Status) -> None:
    """Print how far a run is, and what to do where it does not go on."""
    console = stdout()
    planned = "?" if status.planned is None else f"{status.planned:,}"
    state = f"{status.done:,} of {planned} chunks" + (" planned so far" if status.more_may_follow else "")
    lines = [
        ("run", status.run),
        ("state", f"{'finished' if status.finished else 'not finished'}: {state}"),
        ("log", f"{status.rows:,} rows"),
    ]
    if status.last_part_at_s is not None and status.last_part_age_s is not None:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status.last_part_at_s))
        lines.append(("last part", f"{duration(status.last_part_age_s)} ago ({moment})"))
    if not status.finished:
        if status.chunks_per_s is not None and status.rows_per_s is not None:
            lines.append(("rate", f"{status.chunks_per_s:,.3g} chunks/s, {status.rows_per_s:,.0f} rows/s at last"))
        if status.left_s is not None:
            more = ", or more: figures decide" if status.more_may_follow else ""
            lines.append(("time left", f"about {duration(status.left_s)}{more}"))
        lines.append(("", _what_next(status)))
    for part in status.torn[:_MOST_TOLD]:
        lines.append(("torn", f"{part}: it is simulated again by the next run"))
    for failure in status.failed[:_MOST_TOLD]:
        lines.append(("failed", f"{failed_where(failure)}: {failure.get('error', 'for an unknown reason')}"))
        lines += [("", f"alone: {failure['command']}")] if "command" in failure else []
    for name, found in (("torn", status.torn), ("failed", status.failed)):
        lines += [(name, f"and {len(found) - _MOST_TOLD:,} more: see --json")] if len(found) > _MOST_TOLD else []
    lines += [("note", fault) for fault in status.faults]
    for name, text in lines:
        console.print(f"{name:>10}  {escape(text)}", highlight=False, soft_wrap=True)


def _what_next(status: Status) -> str:
    """Say what to do with a run that is not finished."""
    if status.planned is not None and status.done == status.planned and not status.more_may_follow:
        return "All chunks are there: the command that started it, without --shard, sums up."
    return "If it has stopped, the command that started it goes on from there."


def print_checks(component: str, outcomes: Sequence[Outcome]) -> None:
    """Print each contract check and what was wrong."""
    console = stdout()
    for outcome in outcomes:
        mark = "[green]ok[/]  " if outcome.problem is None else "[red]fail[/]"
        console.print(f"{mark} {escape(outcome.check)}", highlight=False)
        if outcome.problem is not None:
            console.print(f"     {escape(outcome.problem)}", highlight=False, soft_wrap=True)
    failed = sum(outcome.problem is not None for outcome in outcomes)
    console.print(f"{escape(component)}: {len(outcomes) - failed} of {len(outcomes)} checks passed", highlight=False)


def print_bench(outcomes: Sequence[Measured], machine: dict[str, Any]) -> None:
    """Print the table of targets, and where it was measured."""
    table = Table()
    table.add_column("row")
    table.add_column("what", ratio=3)
    for heading in ("measured", "limit", "ratio", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("met")
    table.add_column("limit and note", ratio=4)
    for row in outcomes:
        sign = "<=" if row.direction == "at_most" else ">="
        table.add_row(
            row.name,
            escape(row.what),
            "" if row.measured is None else _amount(row.measured, row.unit),
            "" if row.limit is None else _amount(row.limit, row.unit),
            "" if row.ratio is None else f"{row.ratio:,.0f}x" if row.ratio >= 100 else f"{row.ratio:.3g}x",
            f"{sign} {row.target:g}x",
            {True: "[green]yes[/]", False: "[red]no[/]", None: "skipped"}[row.met],
            escape("; ".join(filter(None, (row.beside, row.note)))),
        )
    console = stdout()
    console.print(table, highlight=False)
    _print_machine(console, machine)


_COSTS = {
    "design": (
        "a query, with its channel",
        ("first", "new prior", "budget", "same prior", "memory"),
        "first: the design and its first channel; budget: a new prior and a quality_budget_km of 1",
    ),
    "belief": ("a report", ("report",), ""),
    "attack": (
        "a report",
        ("report", "with expected figures", "end"),
        "end: what is said of all queries after the last report, once",
    ),
}


def print_costs(costs: Sequence[PartCost], cells: int, machine: dict[str, Any]) -> None:
    """Print what each part costs, a table for each family, and where it was measured."""
    console = stdout()
    for family, (title, columns, note) in _COSTS.items():
        rows = [cost for cost in costs if cost.part.family == family]
        shown = [column for column in columns if any(column in row.figures for row in rows)]
        if not rows:
            continue
        table = Table(
            title=f"{family}: {title}, {cells} cells",
            caption=note if note.partition(":")[0] in shown else None,
            title_justify="left",
        )
        table.add_column(family)
        for column in shown:
            table.add_column(column, justify="right", no_wrap=True)
        for row in rows:
            amounts = [
                _amount(row.figures[column], "bytes" if column == "memory" else "s") if column in row.figures else ""
                for column in shown
            ]
            table.add_row(row.part.name, *amounts)
        console.print(table, highlight=False)
        for row in rows:
            if row.note:
                console.print(escape(f"{row.part.name}: {row.note}"), highlight=False)
    _print_machine(console, machine)


def _print_machine(console: Console, machine: dict[str, Any]) -> None:
    console.print(
        escape(
            f"CPU time on {machine['cpu']}, Python {machine['python']}, numpy {machine['numpy']}, "
            f"BLAS threads: {machine['blas_threads']}, kernels: {machine['kernels']}"
        ),
        highlight=False,
    )


def _amount(value: float, unit: str) -> str:
    """Write seconds or bytes with a unit in which they are easy to read.

    >>> _amount(0.00123, "s"), _amount(6e8, "bytes"), _amount(2.6e9, "bytes"), _amount(1.0, "exponent")
    ('1.23 ms', '600 MB', '2.6 GB', 'r^1')
    """
    if unit == "exponent":
        return f"r^{value:.3g}"
    if unit == "bytes":
        return f"{value / 1e9:.3g} GB" if value >= 1e9 else f"{value / 1e6:.3g} MB"
    size, name = next(((size, name) for size, name in ((1.0, "s"), (1e-3, "ms")) if value >= size), (1e-6, "us"))
    return f"{value / size:.3g} {name}"


def stdout() -> Console:
    """Return where results are printed."""
    # Without emoji: "module:Star:" is no star.
    return Console(width=None if sys.stdout.isatty() else 160, emoji=False)
