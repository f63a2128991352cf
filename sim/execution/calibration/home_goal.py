"""The goal of hiding the home: the share of users whose home an adversary does not know after some days."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from sim.analysis.answers.home_exposure import KnownHome, Rule, rules_within, true_home
from sim.analysis.answers.home_exposure import days_known as days_by_rule
from sim.analysis.answers.survival import EventCounts, SurvivalCurve, kaplan_meier
from sim.execution.calibration.search import Side
from sim.interfaces import FloatArray
from sim.scenario.models import Scenario
from sim.storage.event_schema import ATTACK, REPLICATION, USER
from sim.world import World


@dataclass(frozen=True, slots=True)
class HomeGoal:
    """The share of users whose home is not known within a radius after some days, against the strongest attack.

    The values by user are days: positive from which on the home is known, negative for the last day of a user whose
    home is not known until then.
    """

    days: float
    within_km: float
    side: ClassVar[Side] = "at least"
    unit: ClassVar[str] = "of the homes hidden"
    narrow: ClassVar[float] = 0.05

    def needs(self, scenario: Scenario) -> dict[str, object]:
        """Return the fields of the scenario: its attacks."""
        return {"attacks": scenario.attacks}

    def by_user(self, events: pd.DataFrame, world: World) -> FloatArray:
        """Return the days of the attack that knows most homes at the end of the days."""
        present = events[events["estimated_index"] == events["index"]]
        days = days_known(present, world, self.within_km)
        hidden = {attack: self.hidden_share(np.asarray(own, dtype=float)) for attack, own in days.groupby(level=ATTACK)}
        strongest = min(hidden, key=lambda attack: (np.isnan(hidden[attack]), hidden[attack]))
        return days.xs(strongest, level=ATTACK).unstack().to_numpy(float)

    def over_users(self, values: FloatArray) -> FloatArray:
        """Return the share of each replication, by the estimator of Kaplan and Meier."""
        return np.array([self.hidden_share(own) for own in values])

    def limits_over_users(self, values: FloatArray) -> tuple[float, float]:
        """Return the confidence limits of the share."""
        rate = home_curve(values[0]).at(self.days)
        return rate.low, rate.high

    def hidden_share(self, values: FloatArray) -> float:
        """Return the share of users whose home is hidden at the end of the days; 0 if nobody is observed as long."""
        share = home_curve(values).at(self.days).value
        return 0.0 if np.isnan(share) else float(share)


def days_known(present: pd.DataFrame, world: World, within_km: float) -> pd.Series[float]:
    """Return the signed day of each attack, replication and user: see `HomeGoal`.

    The adversary uses the rule that knows the home first; a rule is not chosen for each user, but for all of them.
    """
    locations = world.locations
    rows: dict[Rule, list[tuple[object, object, object, float]]] = {rule: [] for rule in rules_within(within_km)}
    for (attack, replication, user), own in present.groupby([ATTACK, REPLICATION, USER], sort=True):
        cells, times_s = own["cell"].to_numpy(np.int64), own["time_s"].to_numpy(np.int64)
        guesses = own["estimate"].to_numpy(np.int64)
        places = np.column_stack([locations.x_km[cells], locations.y_km[cells]])
        guessed = np.column_stack([locations.x_km[guesses], locations.y_km[guesses]])
        home = true_home(places, times_s).place
        for (_, rule), known in days_by_rule(guessed, times_s, home, [within_km]).items():
            rows[rule].append((attack, replication, user, _signed(known)))
    columns = [ATTACK, REPLICATION, USER, "day"]
    frames = [pd.DataFrame(own, columns=columns).set_index(columns[:3])["day"] for own in rows.values()]
    # One adversary per attack and rule: the number of known homes decides which rule the attack uses.
    chosen = [
        max((frame.xs(attack, level=ATTACK, drop_level=False) for frame in frames), key=lambda days: (days > 0).mean())
        for attack in frames[0].index.unique(level=ATTACK)
    ]
    days: pd.Series[float] = pd.concat(chosen)
    return days


def _signed(known: KnownHome) -> float:
    return float(known.day if known.known else -known.day)


def home_curve(values: FloatArray) -> SurvivalCurve:
    """Return the survival curve of homes from signed days."""
    return kaplan_meier(EventCounts.of(np.abs(values), np.asarray(values) > 0))
