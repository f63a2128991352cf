"""Statistics of each user that an adversary model knows."""

from __future__ import annotations

from sim.attack.identification import IdentificationParameters
from sim.attack.parameters import AttackParameters
from sim.mobility.statistics import Statistics
from sim.simulation.population import Population
from sim.simulation.prior_error import Held


def known_statistics(attack: AttackParameters, population: Population) -> dict[str, Statistics]:
    """Return the statistics of each user that an adversary knows, without a reference to any trace.

    If names are hidden, statistics that are the same for all users are keyed by pseudonym, whose order reveals nothing.
    """
    statistics_of = population.knowledge(attack.training) if attack.knows == "training" else population.truth
    known = {trace.user: statistics_of(trace.user) for trace in population.traces}
    if isinstance(attack, IdentificationParameters):
        return {user: known[user] for user in population.candidates}
    if population.pseudonyms is None or population.scenario.knows_by_name(attack):
        return known
    return {name: known[user] for name, user in sorted((name, user) for user, name in population.pseudonyms.items())}


def statistics_in_force(attack: AttackParameters, population: Population) -> dict[str, list[tuple[int, Statistics]]]:
    """Return the statistics between shifts, with their first queries, of users whose behaviour changes.

    Only an adversary who knows the test statistics has them; for others the result is empty.
    """
    users = [user for user, life in population.lives.items() if life.borders] if attack.knows == "test" else []
    return {user: population.regimes(user) for user in users}


def held_statistics(attack: AttackParameters, known: dict[str, Statistics], population: Population) -> Held:
    """Return the statistics on which an adversary's best guess without a report rests, by user name.

    `known` is the result of `known_statistics`. The result is None for attacks without a belief about the user.
    """
    if not attack.has_prior:
        return None
    pseudonyms = population.pseudonyms or {}
    users = [trace.user for trace in population.traces]
    return {user: known[user if user in known else pseudonyms[user]] for user in users}
