"""Sentences about the results of a run and its caveats, for the terminal and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandas as pd

from sim.analysis.ranking import MARK, OFF_CURVE, EqualLoss, Leads, end_counts, lower, verdict
from sim.analysis.sweep_labels import circumstances, swept_words, with_distinct_names
from sim.analysis.tournament import STANDINGS
from sim.analysis.user_blocks import UserBlocks
from sim.components.wording import counted, listing
from sim.escaping import visible
from sim.scenario.lppms import LPPMSpec
from sim.scenario.models import Scenario
from sim.storage.manifest import ExceededBudget, Note, RunManifest

_MOST_WIDE = 5
_MOST_EXCEEDED = 3
_MOST_APART = 3
_LARGE_SHARE = 0.05
"""Number of mechanisms above which the notes on an attack are merged into one line."""


def comparable(users: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Return the users' means as comparisons need them: with distinct LPPM names and the column `circumstances`."""
    return with_distinct_names(users, points).assign(circumstances=circumstances(users, points))


def comparisons(users: pd.DataFrame | UserBlocks) -> Iterator[str]:
    """Yield the ranking sentences for each value of `circumstances`; takes a table of `comparable`, or blocks of it.

    Mechanisms are comparable only if all swept parameters outside the mechanisms are equal.
    """
    blocks = UserBlocks.of(users) if isinstance(users, pd.DataFrame) else users
    for text in dict.fromkeys(blocks.series["circumstances"]):
        start = f"With {text!s}: " if text else ""
        compared = EqualLoss(blocks.where("circumstances", text))
        yield from (start + line for line in (*map(str, compared.rankings()), *compared.remarks()))


def repetitions(manifest: RunManifest) -> list[str]:
    """Return sentences about the number of replications where it is not fixed by the scenario.

    That is one replication for exact metrics, or as many as the target half-width of the interval needs.
    """
    sentences = []
    if exact := list(dict.fromkeys(entry.lppm for entry in manifest.repetitions if entry.exact)):
        sentences.append(
            "Simulated once, because movements are recorded, nothing learns and expected metrics are exact: "
            f"{', '.join(exact)}."
        )
    widths = [entry.until_half_width_km for entry in manifest.repetitions if entry.until_half_width_km is not None]
    if widths:
        target = span(min(widths), max(widths), "{:g}".format)
        numbers: dict[str, list[int]] = {}
        for entry in manifest.repetitions:
            if entry.until_half_width_km is not None:
                numbers.setdefault(entry.lppm, []).append(entry.replications)
        each = ", ".join(f"{lppm} {span(min(times), max(times))}" for lppm, times in numbers.items())
        sentences.append(f"Replications until all means over these users are known within ± {target} km: {each}.")
    return sentences


def still_wide(manifest: RunManifest, points: pd.DataFrame) -> list[str]:
    """Return the metrics whose half-width exceeds the target after the maximum number of replications, widest first."""
    if not manifest.finished:
        return []
    wide = [
        (half, entry, name)
        for entry in manifest.repetitions
        for name, half in entry.half_widths_km.items()
        if entry.until_half_width_km is not None and half > entry.until_half_width_km
    ]
    wide.sort(key=lambda item: -item[0])
    shown = wide[:_MOST_WIDE]
    every = pd.DataFrame([(entry.point, entry.lppm) for entry in manifest.repetitions], columns=["point", "lppm"])
    values = dict(zip(every.itertuples(index=False, name=None), swept_words(every, points), strict=True))
    lines = [
        f"{name} of {entry.lppm}{f' ({value})' if value else ''} has a half-width of {half:.2g} km after the maximum "
        f"of {entry.replications} replications (target: {entry.until_half_width_km:g} km)"
        for half, entry, name in shown
        for value in [values[entry.point, entry.lppm]]
    ]
    more = len(wide) - len(shown)
    return [
        *lines,
        *([f"{more} more metrics miss their target half-width: see `repetitions` in manifest.json"] if more else []),
    ]


def warnings(manifest: RunManifest) -> list[str]:
    """Return caveats: an unfinished run, omitted data, exceeded budgets, belief resets and missed optimality gaps."""
    texts = [] if manifest.finished else ["the run is not finished: results cover the completed simulations only"]
    texts += [note for world in manifest.worlds for note in left_out(world.traces)]
    texts += manifest.remarks
    texts += _exceeded_budgets(manifest)
    notes: dict[str, list[Note]] = {}
    for note in manifest.notes:
        notes.setdefault(note.lppm, []).append(note)
    targets = _target_gaps(manifest.scenario) if notes else {}
    impossible: dict[str, dict[str, int]] = {}
    for lppm, own in notes.items():
        if resets := sum(note.lppm_fallbacks for note in own):
            texts.append(f"{lppm}: {resets} reports had probability zero under its belief and reset it")
        worst = max((note.worst_gap for note in own if note.worst_gap is not None), default=0.0)
        if worst > targets.get(lppm, float("inf")):
            texts.append(
                f"{lppm}: its estimates reached an optimality gap of {worst:.2g} (target: {targets[lppm]:.2g})"
            )
        for note in own:
            for name, n in note.attack_fallbacks.items():
                if n:
                    counts = impossible.setdefault(name, {})
                    counts[lppm] = counts.get(lppm, 0) + n
    for name, counts in impossible.items():
        if len(counts) > _MOST_APART:
            each = ", ".join(f"{lppm} {n}" for lppm, n in counts.items())
            texts.append(f"{name}: reports with probability zero under the adversary's belief, by mechanism: {each}")
        else:
            texts += [
                f"{name} against {lppm}: {n} reports had probability zero under the adversary's belief"
                for lppm, n in counts.items()
            ]
    return texts + _dropped_secrets(manifest)


def _dropped_secrets(manifest: RunManifest) -> list[str]:
    """Return the attacks that dropped a large probability of a mechanism's secret, with the largest of all points."""
    shares: dict[tuple[str, str], float] = {}
    for note in manifest.notes:
        for name, share in note.attack_dropped.items():
            shares[name, note.lppm] = max(share, shares.get((name, note.lppm), 0.0))
    return [
        f"{name} against {lppm}: it tracks part of the secrets only and dropped others with a probability of "
        f"{share:.0%} on average over reports, so that it is between the optimal attack and one that ignores the "
        "memory; more are tracked with a larger `most_tables`"
        for (name, lppm), share in shares.items()
        if share > _LARGE_SHARE
    ]


def _exceeded_budgets(manifest: RunManifest) -> list[str]:
    """Return the mechanisms with the largest losses above their budgets, and the number of further ones."""
    exceeded = manifest.exceeded_budgets
    lines = [
        f"{budget.lppm}{budget.at and ' (' + budget.at + ')'} exceeded its quality budget of {budget.asked_km:g} km: "
        f"the loss was {budget.realised_km:.2f} km{_interval(budget)}{_excess(budget.asked_km, budget.realised_km)}"
        for budget in exceeded[:_MOST_EXCEEDED]
    ]
    if lines:
        lines[-1] += (
            "; a budget holds under the mechanism's own model, which these users do not follow: "
            "`quality_budget_km: {realised: ...}` is calibrated to the loss in the run"
        )
    more = len(exceeded) - len(lines)
    if more:
        losses = f"{more} more losses exceed their budgets" if more > 1 else "1 more loss exceeds its budget"
        lines.append(f"{losses}: see `exceeded_budgets` in manifest.json")
    return lines


def _interval(budget: ExceededBudget) -> str:
    if budget.low_km is None or budget.high_km is None:
        return ""
    return f", 95 % interval {budget.low_km:.2f} to {budget.high_km:.2f} km"


def _excess(asked_km: float, realised_km: float) -> str:
    return f" (+{100 * (realised_km / asked_km - 1):.0f} %)" if asked_km else ""


def tournament(table: pd.DataFrame, leads: Leads, users: int) -> str:
    """Return the sentence on the standings: the best mechanism, each under the attack that is strongest on it.

    `table` is a table of `tournament.standings`; `leads` and `users` are the results of `tournament.leads` for it.
    """
    ranked = table[table["rank"].notna()]
    if ranked.empty:
        return "No mechanism is ranked: for each of them, at least one attack cannot be computed."
    first, *others = ranked.to_dict("records")
    same = ranked["quality_loss_km"].max() - ranked["quality_loss_km"].min() < 1e-9
    where = f"At {first['quality_loss_km']:g} km of quality loss" if same else "Each at its own quality loss"
    number = len(table.columns) - len(STANDINGS)
    error = f"adversary error {_error_of(first)}"
    if not others:
        return f"{where}, only {first['lppm']} is ranked: {error} under the strongest of {number} attacks on it."
    value = f"{error} under the strongest of {number} attacks on it, {first['strongest']}"
    best = f"{first['lppm']} {'protects best' if same else 'ranks first'}"
    behind = ", ".join(
        f"{row['lppm']} {_error_of(row)} ({row['strongest']}, {lower(*leads[row['lppm']], users)})" for row in others
    )
    off = {row["lppm"]: end_counts(row["at_largest"], row["at_smallest"]) for row in (first, *others)}
    ends = ", ".join(f"{lppm} {counts}" for lppm, counts in off.items() if counts)
    note = f" {MARK} {OFF_CURVE}: {ends}." if ends else ""
    return f"{where}, {verdict(first['lppm'], leads, users, best, value)}; {behind}.{note}"


def _error_of(row: dict[Any, Any]) -> str:
    return f"{row['adversary_error_km']:.2f} km{MARK if row['at_largest'] + row['at_smallest'] else ''}"


def detected_changes(manifest: RunManifest) -> list[str]:
    """Return the number of changes that each mechanism detected in its released reports, if any."""
    counts: dict[str, int] = {}
    for note in manifest.notes:
        counts[note.lppm] = counts.get(note.lppm, 0) + note.lppm_alarms
    return [
        f"{lppm} detected {n:,} change{'s' if n > 1 else ''} in its released reports."
        for lppm, n in counts.items()
        if n
    ]


def hidden_channels(scenario: Scenario) -> list[str]:
    """Return the attacks that cannot be computed against each LPPM of the full type, which publishes no channel."""
    not_computed = [attack.name for attack in scenario.attacks if attack.needs_channel]
    return [
        f"Not computed against {lppm.name}, which learns from true cells and therefore publishes no channel: "
        f"{', '.join(not_computed)}."
        for lppm in scenario.lppms
        if not_computed and lppm.full
    ]


_TREATMENTS = {
    "unsupported": "not computed by {attacks}, unless with `ignores_memory: true`",
    "approximated": "{attacks}: the secret is tracked approximately, as independent of the cell given past reports",
    "ignored": "{attacks}: each report is taken as one with a new secret",
}


def memories(scenario: Scenario, secrets: Mapping[str, str]) -> list[str]:
    """Return how attacks treat the secrets of mechanisms with hidden state, and what does not apply to these.

    `secrets` has the custom mechanisms with a secret, with the approximation of adversaries who track it.
    """
    lppms: dict[str, list[str]] = {}
    for lppm in scenario.lppms:
        if not lppm.has_memory and lppm.name not in secrets:
            continue
        for line in _on_memory(lppm, scenario, secrets.get(lppm.name, lppm.design.approximation)):
            lppms.setdefault(line, []).append(lppm.name)
    return [f"Outputs of {listing(names, 'and')} depend on a secret: {line}." for line, names in lppms.items()]


def _on_memory(lppm: LPPMSpec, scenario: Scenario, approximation: str) -> Iterator[str]:
    """Yield how attacks treat the secret of one mechanism."""
    for treatment, line in _TREATMENTS.items():
        if names := [attack.name for attack in scenario.attacks if attack.memory == treatment]:
            yield line.format(attacks=_all_of(names))
    tracking = [attack.name for attack in scenario.attacks if attack.memory in ("tracked", "approximated")]
    if tracking and approximation:
        yield f"each of {listing(tracking, 'and')} {approximation}"
    yield "expected metrics and epsilon do not apply, since reports are not independent given the cells"
    if not lppm.belief.memoryless:
        skipped = "skips those that are then impossible"
        yield f"the belief of the mechanism learns from its reports as if each had a new secret, and {skipped}"


def _all_of(names: list[str]) -> str:
    return listing(names, "and")


def left_out(readings: dict[str, dict[str, Any]]) -> list[str]:
    """Return notes on trace files: rows outside the region, irregular times, and queries between visits."""
    return [
        f"{where}: {note}"
        for where, reading in readings.items()
        for note in (*_odd_rows(reading), *_between_visits(reading))
    ]


def _odd_rows(reading: dict[str, Any]) -> Iterator[str]:
    if rows := reading.get("rows_outside", 0):
        yield f"{rows:,} of {reading['rows']:,} rows lie outside the region and are omitted"
    if rows := reading.get("rows_backward", 0):
        yield (
            f"time decreases between consecutive rows {_times(rows)} ({_of_users(reading, 'backward')}): the rows "
            "are sorted by time; check the time column and its time zone"
        )
    if rows := reading.get("rows_same_time", 0):
        yield (
            f"the same user is in different cells at the same time {_times(rows)} "
            f"({_of_users(reading, 'same_time')}): all rows are retained, in file order; check that each id "
            "belongs to one person"
        )
    if rows := reading.get("rows_repeated", 0):
        yield (
            f"{rows:,} row{'s repeat' if rows > 1 else ' repeats'} time and cell of the previous row "
            f"({_of_users(reading, 'repeated')}): all rows are retained; with `every_visit`, each is a query"
        )
    yield from _sessions(reading)
    resampled = "visits_cut" in reading  # their queries are counted, by every demand but custom ones
    slots = 0 if resampled and "queries_carried" in reading else reading.get("visits_carried", 0)
    if slots:
        of_days = "" if resampled else " of whole days"
        yield (
            f"{slots:,} of {reading['visits']:,} slots{of_days} ({_percent(slots, reading['visits'])}) have no "
            "row and repeat the previous position"
        )


def _sessions(reading: dict[str, Any]) -> Iterator[str]:
    """Yield notes on rows that are omitted because of short sessions or movement between stay points."""
    if dropped := reading.get("sessions_dropped", 0):
        sessions = dropped + reading["sessions"]
        yield (
            f"{dropped:,} of {sessions:,} sessions ({_percent(dropped, sessions)}) are shorter than `min_session` and "
            f"omitted, with {counted(reading['rows_dropped'], 'row')}"
        )
    if "stays" in reading:
        outside = reading["stays_outside"]
        yield (
            f"{reading['stays']:,} stay points are made of {reading['rows_staying']:,} rows; rows between stay points "
            f"are omitted{f', and {outside:,} stay points outside the region' if outside else ''}"
        )


def _of_users(reading: dict[str, Any], kind: str) -> str:
    """Return the number of users with irregular rows, and those with most of them."""
    users, most = reading[f"users_{kind}"], reading.get(f"most_{kind}", {})
    named = ", ".join(f"{visible(user, keep='')}: {rows:,}" for user, rows in most.items())
    return f"{_users(users)}{f'; {named}' if named else ''}{', ...' if users > len(most) > 0 else ''}"


def _between_visits(reading: dict[str, Any]) -> Iterator[str]:
    """Yield notes on queries between recorded visits; the numbers of `poisson` are expected values."""
    carried, cut = reading.get("queries_carried", 0), reading.get("queries_cut", 0)
    about = "about " if reading.get("expected") else ""
    parts = " of past and test" if reading.get("queries_past") else ""
    if carried:
        total = carried + reading["queries_recorded"]
        yield (
            f"{about}{carried:,} of {total:,} queries{parts} ({_percent(carried, total)}) fall between recorded visits "
            "and repeat the previous position"
        )
    if gaps := reading.get("gaps", 0):
        hours = f"{reading['max_gap_s'] / 3600:.3g} h"
        during = f"{gaps:,} gap{'s' if gaps > 1 else ''} of over {hours} between visits (max_gap_s)"
        if "queries_cut" not in reading:
            yield f"no queries are made in {during}"
        else:
            made = reading["queries_recorded"] + carried
            yield (
                f"{about}{made:,} queries{parts} are made while positions are recorded; {cut:,} are omitted in {during}"
            )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _users(count: int) -> str:
    return f"{count:,} user{'s' if count > 1 else ''}"


def _target_gaps(scenario: Scenario) -> dict[str, float]:
    """Return the target optimality gap of each learning mechanism; empty if gaps are swept."""
    if any(path.endswith(("gap", "belief", "lppms")) for path in scenario.sweep):
        return {}
    gaps = {lppm.name: lppm.belief.model_dump().get("gap") for lppm in scenario.lppms}
    return {name: gap for name, gap in gaps.items() if gap is not None}


def span(least: Any, most: Any, write: Callable[[Any], str] = "{:,}".format) -> str:
    """Format a range, or a single value if both ends are equal.

    >>> span(5, 5), span(5, 2000)
    ('5', '5 to 2,000')
    """
    return " to ".join(dict.fromkeys((write(least), write(most))))
