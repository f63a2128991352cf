"""What a run found and what is worth knowing of it, in sentences: for the terminal and for the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd

from sim.analysis.ranking import Leads, lower, rankings, remarks, verdict
from sim.analysis.sweep_labels import circumstances, named_apart, swept_words
from sim.analysis.tournament import STANDINGS
from sim.scenario.models import Scenario
from sim.storage.manifest import Note, RunManifest

_MOST_WIDE = 5
_MOST_EXCEEDED = 3
_MOST_APART = 3
"""Of more mechanisms an attack's note is told in one line."""


def comparable(users: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Return the means of users with what `comparisons` needs: LPPMs named apart, and the circumstances."""
    return named_apart(users, points).assign(circumstances=circumstances(users, points))


def comparisons(users: pd.DataFrame) -> Iterator[str]:
    """Yield the sentences of each circumstances that were swept, in which alone mechanisms can be compared."""
    for text, own in users.groupby("circumstances", sort=False):
        start = f"With {text!s}: " if text else ""
        yield from (start + line for line in (*map(str, rankings(own)), *remarks(own)))


def repetitions(manifest: RunManifest) -> list[str]:
    """Return how many replications it took where the scenario does not say it: one, or until figures are sharp."""
    found = []
    if exact := list(dict.fromkeys(entry.lppm for entry in manifest.repetitions if entry.exact)):
        found.append(
            "Run once, since movements are recorded, nothing learns and expected figures are exact: "
            f"{', '.join(exact)}."
        )
    widths = [entry.until_half_width_km for entry in manifest.repetitions if entry.until_half_width_km is not None]
    if widths:
        asked = span(min(widths), max(widths), "{:g}".format)
        numbers: dict[str, list[int]] = {}
        for entry in manifest.repetitions:
            if entry.until_half_width_km is not None:
                numbers.setdefault(entry.lppm, []).append(entry.replications)
        each = ", ".join(f"{lppm} {span(min(times), max(times))}" for lppm, times in numbers.items())
        found.append(f"Replications until all means over these users are within ± {asked} km: {each}.")
    return found


def still_wide(manifest: RunManifest, points: pd.DataFrame) -> list[str]:
    """Return which figures are less sharp than asked for, after the most replications allowed, widest first."""
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
        f"{name} of {entry.lppm}{f' ({value})' if value else ''} is known within ± {half:.2g} km after "
        f"{entry.replications} replications, the most allowed, not within ± {entry.until_half_width_km:g} km"
        for half, entry, name in shown
        for value in [values[entry.point, entry.lppm]]
    ]
    more = len(wide) - len(shown)
    return [
        *lines,
        *([f"{more} more figures are less sharp than asked for: see `repetitions` in manifest.json"] if more else []),
    ]


def warnings(manifest: RunManifest) -> list[str]:
    """Return what a reader of the figures should know: beliefs that ran out of mass, gaps that were not reached."""
    found = [] if manifest.finished else ["the run is not finished: these are the figures of what is there"]
    found += [note for world in manifest.worlds for note in left_out(world.traces)]
    found += manifest.remarks
    found += _exceeded_budgets(manifest)
    notes: dict[str, list[Note]] = {}
    for note in manifest.notes:
        notes.setdefault(note.lppm, []).append(note)
    asked = _asked_gaps(manifest.scenario) if notes else {}
    impossible: dict[str, dict[str, int]] = {}
    for lppm, own in notes.items():
        if resets := sum(note.lppm_fallbacks for note in own):
            found.append(f"{lppm}: {resets} reports had no mass under its belief and reset it")
        worst = max((note.worst_gap for note in own if note.worst_gap is not None), default=0.0)
        if worst > asked.get(lppm, float("inf")):
            found.append(f"{lppm}: its estimates are certain within a gap of {worst:.2g}, not {asked[lppm]:.2g}")
        for note in own:
            for name, n in note.attack_fallbacks.items():
                if n:
                    counts = impossible.setdefault(name, {})
                    counts[lppm] = counts.get(lppm, 0) + n
    for name, counts in impossible.items():
        if len(counts) > _MOST_APART:
            each = ", ".join(f"{lppm} {n}" for lppm, n in counts.items())
            found.append(f"{name}: reports that had no mass under her belief, against {each}")
        else:
            found += [f"{name} against {lppm}: {n} reports had no mass under her belief" for lppm, n in counts.items()]
    return found


def _exceeded_budgets(manifest: RunManifest) -> list[str]:
    """Return which mechanisms lost more than their budget, the worst few of them, and how many there are more."""
    exceeded = manifest.exceeded_budgets
    lines = [
        f"{budget.lppm}{budget.at and ' (' + budget.at + ')'} lost more than its budget: "
        f"asked {budget.asked_km:g} km, realised {budget.realised_km:.2f} km "
        f"({_excess(budget.asked_km, budget.realised_km)})"
        for budget in exceeded[:_MOST_EXCEEDED]
    ]
    if lines:
        lines[-1] += "; a budget holds on the mechanism's own model, which these users do not follow"
    more = len(exceeded) - len(lines)
    if more:
        losses = f"{more} more losses are above their budgets" if more > 1 else "1 more loss is above its budget"
        lines.append(f"{losses}: see `exceeded_budgets` in manifest.json")
    return lines


def _excess(asked_km: float, realised_km: float) -> str:
    return f"+{100 * (realised_km / asked_km - 1):.0f} %" if asked_km else "nothing was to be lost"


def tournament(table: pd.DataFrame, leads: Leads, users: int) -> str:
    """Return who protects best against the attack that is strongest on it, where that is significant.

    Takes a table of `tournament.standings` and what `tournament.leads` returns for it.
    """
    ranked = table[table["rank"].notna()]
    if ranked.empty:
        return "No mechanism is ranked: not every attack can be computed against any of them."
    first, *others = ranked.to_dict("records")
    same = ranked["quality_loss_km"].max() - ranked["quality_loss_km"].min() < 1e-9
    where = f"At {first['quality_loss_km']:g} km of quality loss" if same else "Each at its own quality loss"
    number = len(table.columns) - len(STANDINGS)
    error = f"P_AE {first['adversary_error_km']:.2f} km"
    if not others:
        return f"{where}, {first['lppm']} alone is ranked: {error} under the strongest of {number} attacks on it."
    figure = f"{error} under the strongest of {number} attacks on it, {first['strongest']}"
    best = f"{first['lppm']} {'protects best' if same else 'is ahead'}"
    behind = ", ".join(
        f"{row['lppm']} {row['adversary_error_km']:.2f} km ({row['strongest']}, {lower(*leads[row['lppm']], users)})"
        for row in others
    )
    return f"{where}, {verdict(first['lppm'], leads, users, best, figure)}; {behind}."


def found_changes(manifest: RunManifest) -> list[str]:
    """Return how many changes mechanisms found in the reports they released, for those that found some."""
    counts: dict[str, int] = {}
    for note in manifest.notes:
        counts[note.lppm] = counts.get(note.lppm, 0) + note.lppm_alarms
    return [
        f"{lppm} found {n:,} change{'s' if n > 1 else ''} in its released reports." for lppm, n in counts.items() if n
    ]


def hidden_channels(scenario: Scenario) -> list[str]:
    """Return which attacks were not tried on which LPPMs, because these keep their channels to themselves."""
    blind = [attack.name for attack in scenario.attacks if attack.needs_channel]
    return [
        f"Not computed against {lppm.name}, which learns from real cells and so keeps its channels to itself: "
        f"{', '.join(blind)}."
        for lppm in scenario.lppms
        if blind and lppm.full
    ]


def left_out(readings: dict[str, dict[str, int]]) -> list[str]:
    """Return what trace files lack: rows outside the region, irregular times, and positions between visits."""
    return [
        f"{where}: {note}"
        for where, reading in readings.items()
        for note in (*_odd_rows(reading), *_between_visits(reading))
    ]


def _odd_rows(reading: dict[str, int]) -> Iterator[str]:
    if rows := reading.get("rows_outside", 0):
        yield f"{rows:,} of {reading['rows']:,} rows lie outside the region and are left out"
    if rows := reading.get("rows_backward", 0):
        yield (
            f"time decreases between consecutive rows {_times(rows)} ({_users(reading['users_backward'])}): the rows "
            "are sorted by time; check the time column and its time zone"
        )
    if rows := reading.get("rows_same_time", 0):
        yield (
            f"the same user is in different cells at the same time {_times(rows)} "
            f"({_users(reading['users_same_time'])}): all rows are kept, in the order of the file; does an id stand "
            "for several people?"
        )
    if slots := reading.get("visits_carried", 0):
        yield (
            f"{slots:,} of {reading['visits']:,} slots of whole days ({_percent(slots, reading['visits'])}) have no "
            "row and keep the last position before"
        )


def _between_visits(reading: dict[str, int]) -> Iterator[str]:
    """Yield how many queries have no visit of their own; the numbers of `poisson` are expected values."""
    carried, cut = reading.get("queries_carried", 0), reading.get("queries_cut", 0)
    about = "about " if reading.get("expected") else ""
    if carried:
        asked = carried + reading["queries_recorded"]
        yield (
            f"{about}{carried:,} of {asked:,} queries ({_percent(carried, asked)}) fall between recorded visits and "
            "repeat the last position"
        )
    if gaps := reading.get("gaps", 0):
        hours = f"{reading['max_gap_s'] / 3600:.3g} h"
        during = f"{gaps:,} gap{'s' if gaps > 1 else ''} of over {hours} between visits (max_gap_s)"
        if "queries_cut" not in reading:
            yield f"no queries are made in {during}"
        else:
            made = reading["queries_recorded"] + carried
            yield f"{about}{made:,} queries are made while positions are recorded; {cut:,} are cut in {during}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _users(count: int) -> str:
    return f"{count:,} user{'s' if count > 1 else ''}"


def _asked_gaps(scenario: Scenario) -> dict[str, float]:
    """Return the gap that each learning mechanism was to reach, unless gaps are swept."""
    if any(path.endswith(("gap", "belief", "lppms")) for path in scenario.sweep):
        return {}
    gaps = {lppm.name: lppm.belief.model_dump().get("gap") for lppm in scenario.lppms}
    return {name: gap for name, gap in gaps.items() if gap is not None}


def span(least: Any, most: Any, write: Callable[[Any], str] = "{:,}".format) -> str:
    """Write what is certain, or the two ends of what is not.

    >>> span(5, 5), span(5, 2000)
    ('5', '5 to 2,000')
    """
    return " to ".join(dict.fromkeys((write(least), write(most))))
