"""Collection of the answers from an event log, in two passes over its parts.

The first pass collects where users go, for the control attacks. The second one computes the success of all attacks for
each user, block by block, and merges it into moments over users, counts of events and numbers of places. No rows of
users are kept, except the reports of a sample of users, whose weeks are linked.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from sim.analysis.answers.control_attacks import ControlAttacks, Folds
from sim.analysis.answers.home_exposure import Rule, true_home
from sim.analysis.answers.of_user import HABITS, OTHERS, KnownDay, Truth, UsersOfWorld
from sim.analysis.answers.places import positions_km
from sim.analysis.answers.questions import POSTERIOR, POSTERIOR_WITHIN, REPORTS, Questions, key, paired, recorded_radii
from sim.analysis.answers.simulated_users import SIMULATED, ReportedCells, SimulatedUser, simulated_users
from sim.analysis.answers.survival import EventCounts
from sim.analysis.answers.unicity import key_number, top_key
from sim.analysis.answers.weeks import Group, Weeks
from sim.analysis.event_log import SERIES, log_parts, require_parts
from sim.analysis.moments import Moments, RatioMoments, add_moments
from sim.analysis.replication_effect import ReplicationMoments, batches_of, deviations
from sim.analysis.trajectories import output_space
from sim.analysis.user_blocks import rows_per_user, user_blocks
from sim.interfaces import FloatArray, IntArray
from sim.storage.event_schema import POSTERIOR_WITHIN_KM
from sim.storage.run_directory import RunDirectory
from sim.storage.summary_rows import require_cells
from sim.world.locations import Locations

ATTACK = "attack"
"""Prefix of the columns with the success of an attack; `CONTROLS` are those of control attacks."""
TRUE_PLACES = ""
"""Stands for the name of an LPPM: the true places, as without protection."""

Series = tuple[int, str, str]


@dataclass
class Collected:
    """Everything that the answers need; memory does not depend on the number of queries."""

    questions: Questions
    grids: dict[int, Locations]
    timed: bool
    """Whether times are times, and not the numbers of queries."""
    n_users: int
    posterior: bool = False
    """Whether the posterior was recorded."""
    moments: Moments | None = None
    """Moments over users of the success of attacks and control attacks, by point, LPPM and attack."""
    effects: ReplicationMoments | None = None
    extremes: pd.DataFrame | None = None
    """Smallest and largest success of a user: columns with the suffixes `_low` and `_high`."""
    excess: dict[tuple[Series, str], RatioMoments] = field(default_factory=dict)
    """Moments of (attack - control, 1 - control) by series and control attack; a column for each of `paired`."""
    reports: dict[Series, RatioMoments] = field(default_factory=dict)
    """Moments of (located reports, reports) of each user; a column for each radius."""
    events: dict[tuple[Series, float, Rule], EventCounts] = field(default_factory=dict)
    """Days from which on homes are known; a user counts once, whatever the number of replications."""
    last_days: dict[Series, Counter[int]] = field(default_factory=dict)
    """Number of simulated users by their last day."""
    keys: dict[tuple[Group, int], array[int]] = field(default_factory=dict)
    """Number of each user's key by group and number of places: 8 bytes per user, all that grows with their number."""
    weeks: Weeks = field(default_factory=Weeks)
    without_nights: int = 0
    """Number of users without a query at night at any sweep point or in any replication."""


def collect(run: RunDirectory, questions: Questions) -> Collected:
    """Read the log of a run twice and return what the answers need."""
    parts = run.parts()
    require_parts(run, parts)
    manifest = run.manifest()
    grids = {point: world.restore_locations() for world in manifest.worlds for point in world.points}
    controls = {point: ControlAttacks(grid) for point, grid in grids.items()}
    folds, timed = _visits(run, controls, questions)
    posterior = manifest.scenario.record.posterior
    collected = Collected(questions, grids, timed, len(folds), posterior)
    users = {point: UsersOfWorld(own, questions, timed=timed, posterior=posterior) for point, own in controls.items()}
    for block in user_blocks(parts, rows_per_user(manifest.scenario)):
        reader = _Block(run, collected, folds, users)
        for part in log_parts(run, block):
            for own in simulated_users(part):
                reader.add(own)
        reader.finish()
    return collected


def _visits(run: RunDirectory, controls: dict[int, ControlAttacks], questions: Questions) -> tuple[Folds, bool]:
    """Collect the visits and homes of all users for the control attacks; return folds, and whether times are times.

    True cells do not depend on LPPM and attack, so only those of the first ones of each part are read.
    """
    folds, timed = Folds(), False
    for part in log_parts(run):
        require_cells(run, part.rows(["event"])["event"])
        for own in simulated_users(part, first_attack=True):
            folds.add([own.user])
            home = true_home(np.column_stack([own.cells, own.cells]), own.times_s, questions.night)
            hours = questions.night.hour_of(own.times_s)
            controls[own.point].add(folds[own.user], own.cells, hours, int(home.place[0]))
            timed = timed or bool((own.times_s - own.times_s[0] != np.arange(len(own.times_s))).any())
    return folds, timed


class _Block:
    """Success on the users of a block."""

    def __init__(self, run: RunDirectory, collected: Collected, folds: Folds, users: dict[int, UsersOfWorld]) -> None:
        self._run, self._collected, self._folds, self._users = run, collected, folds, users
        self._positions = {point: positions_km(grid) for point, grid in collected.grids.items()}
        self._spaces: dict[tuple[str, int], ReportedCells] = {}
        self._truths: dict[tuple[int, str, int], Truth] = {}
        self._reported: set[tuple[Group, str]] = set()
        self._rows: list[dict[str, Any]] = []
        self._days: list[tuple[Series, str, KnownDay]] = []

    def add(self, own: SimulatedUser) -> None:
        """Add the queries of a simulated user under one attack."""
        truth = self._truth(own)
        group = Group(own.point, own.lppm, own.replication)
        if (group, own.user) not in self._reported:
            self._reported.add((group, own.user))
            self._add_reports(group, own.user, *self._space(own).of(own))
        if not own.attack:
            return
        success, known = self._users[own.point].attacked(truth, own.estimates, own.reported)
        columns = {f"{ATTACK}:{name}": value for name, value in success.items()}
        for kind, control in truth.controls.items():
            columns |= {f"{kind}:{name}": value for name, value in control.items()}
        if self._collected.posterior:
            for radius in recorded_radii(self._collected.questions):
                mass = own.posterior[POSTERIOR_WITHIN_KM[radius]]
                columns[f"{ATTACK}:{key(POSTERIOR_WITHIN, radius)}"] = float(mass.mean())
            columns[f"{ATTACK}:{key(POSTERIOR)}"] = float(own.posterior["posterior_at_truth"].mean())
        labels = dict(zip(SIMULATED, (*own.series, own.user, own.replication), strict=True))
        self._rows.append(labels | columns)
        self._days += [(own.series, own.user, day) for day in known]

    def _truth(self, own: SimulatedUser) -> Truth:
        which = (own.point, own.user, own.replication)
        if which not in self._truths:
            truth = self._users[own.point].truth(own.cells, own.times_s, self._folds[own.user])
            self._truths[which] = truth
            self._add_reports(Group(own.point, TRUE_PLACES, own.replication), own.user, own.cells, own.times_s)
        return self._truths[which]

    def _space(self, own: SimulatedUser) -> ReportedCells:
        which = (own.lppm, own.point)
        if which not in self._spaces:
            self._spaces[which] = ReportedCells(output_space(self._run, *which))
        return self._spaces[which]

    def _add_reports(self, group: Group, user: str, cells: IntArray, times_s: IntArray) -> None:
        collected = self._collected
        for count in collected.questions.counts:
            if (own := top_key(cells, count)) is not None:
                collected.keys.setdefault((group, count), array("Q")).append(key_number(own))
        if collected.timed:
            collected.weeks.add(group, user, self._positions[group.point][cells], times_s)

    def finish(self) -> None:
        """Merge the users of the block into the collected answers."""
        days_only = {user for (_, user, _), truth in self._truths.items() if not truth.at_night}
        self._collected.without_nights += len(days_only)
        if not self._rows:
            return
        frame = pd.DataFrame(self._rows)
        names = list(frame.columns.drop(SIMULATED))
        users = frame.groupby([*SERIES, "user"], sort=True)[names].mean().reset_index()
        effects = ReplicationMoments.of(deviations(batches_of(frame, SERIES, names), SERIES, names), SERIES, names)
        collected = self._collected
        collected.moments = add_moments(collected.moments, Moments.of(users, SERIES, names))
        collected.effects = effects if collected.effects is None else collected.effects.merged(effects)
        collected.extremes = _wider(collected.extremes, users, names)
        for labels, own in users.groupby(SERIES, sort=True):
            self._add_ratios(_series(labels), own)
        self._add_days()

    def _add_ratios(self, series: Series, users: pd.DataFrame) -> None:
        questions = self._collected.questions
        keys, radii = [key(*own) for own in paired(questions, posterior=self._collected.posterior)], questions.radii_km
        attack = _columns(users, ATTACK, keys)
        for kind in (OTHERS, HABITS):
            control = _columns(users, kind, keys)
            _merge(self._collected.excess, (series, kind), RatioMoments.of(attack - control, 1 - control))
        located = _columns(users, ATTACK, [key(REPORTS, radius) for radius in radii])
        reports = np.repeat(_columns(users, ATTACK, [key(REPORTS)]), len(radii), axis=1)
        _merge(self._collected.reports, series, RatioMoments.of(located, reports))

    def _add_days(self) -> None:
        """Count the days on which homes are known; the replications of a user together count as one user."""
        collected = self._collected
        times = Counter((series, user, day.radius_km, day.rule) for series, user, day in self._days)
        by_question: dict[tuple[Series, float, Rule], list[tuple[KnownDay, float]]] = {}
        for series, user, day in self._days:
            weight = 1 / times[series, user, day.radius_km, day.rule]
            by_question.setdefault((series, day.radius_km, day.rule), []).append((day, weight))
        for question, days in by_question.items():
            counts = EventCounts.of(*zip(*((day.day, day.known, weight) for day, weight in days), strict=True))
            before = collected.events.get(question)
            collected.events[question] = counts if before is None else before.merged(counts)
            last = Counter(day.last_day for day, _ in days)
            collected.last_days[question[0]] = collected.last_days.get(question[0], Counter()) + last


def _series(labels: Any) -> Series:
    point, lppm, attack = labels
    return int(point), str(lppm), str(attack)


def _columns(users: pd.DataFrame, prefix: str, keys: list[str]) -> FloatArray:
    return users[[f"{prefix}:{name}" for name in keys]].to_numpy(float)


def _merge(moments: dict[Any, RatioMoments], name: Any, more: RatioMoments) -> None:
    moments[name] = moments[name].merged(more) if name in moments else more


def _wider(before: pd.DataFrame | None, users: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return the extremes over the users so far and those of a table."""
    groups = users.groupby(SERIES, sort=True)[names]
    own = groups.min().add_suffix("_low").join(groups.max().add_suffix("_high"))
    if before is None:
        return own
    index = before.index.union(own.index)
    before, own = before.reindex(index), own.reindex(index)
    ends = {name: np.fmin if str(name).endswith("_low") else np.fmax for name in own.columns}
    return pd.DataFrame({name: end(before[name], own[name]) for name, end in ends.items()}, index=index)
