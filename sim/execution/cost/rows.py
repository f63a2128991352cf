"""Number of rows in the event log of a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sim.attack.bayesian import BayesianParameters
from sim.attack.parameters import AttackParameters
from sim.scenario.models import Scenario


def event_rows(scenario: Scenario, attacks: Sequence[AttackParameters], lengths: Iterable[int]) -> int:
    """Return the number of rows in the event log of one simulation, given the number of queries of each user."""
    past = [
        attack.hindsight
        for attack in attacks
        if isinstance(attack, BayesianParameters) and attack.hindsight is not None
    ]
    about_the_past = sum(hindsight.guesses(queries) for hindsight in past for queries in lengths)
    return sum(map(scenario.record.rows, lengths)) * max(len(attacks), 1) + about_the_past
