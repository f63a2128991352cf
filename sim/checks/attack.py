"""Contract checks of attacks."""

from __future__ import annotations

import copy

import numpy as np

from sim.checks.bench import Bench
from sim.checks.requirements import require, require_callable, require_cell, require_count, require_flag, require_share
from sim.events import Guess, Report
from sim.interfaces import Attack, AttackCapabilities


def attack_estimates_cells(attack: Attack, bench: Bench) -> None:
    """Every report yields a guess for its user and index with a cell of the grid."""
    before = bench.channel.matrix().copy()
    for index, output in enumerate(range(bench.channel.n_outputs), start=1):
        for user in ("ann", "bob"):
            guess = _observed(attack, user, index, output, bench)
            require(guess.user == user, f"guess.user must be the user of the report, {user!r}, got {guess.user!r}")
            require(guess.index == index, f"guess.index must be the index of the report, {index}, got {guess.index}")
            require_cell(guess.estimate, "estimate", bench.n_cells)
            _require_same_estimate(guess, output, bench)
    require(np.array_equal(before, bench.channel.matrix()), "observe changed the channel of the report")


def attack_revises_earlier_queries_only(attack: Attack, bench: Bench) -> None:
    """Revised estimates, of a report or the optional `conclude`, are for earlier queries and cells of the grid."""
    last = bench.channel.n_outputs
    for index, output in enumerate(range(last), start=1):
        _require_past(_observed(attack, "ann", index, output, bench), index, bench)
    for guess in require_callable(AttackCapabilities.conclude, attack)():
        require(isinstance(guess, Guess), f"conclude must yield guesses, got {guess!r}")
        require(guess.user == "ann", f"conclude must yield guesses for users with reports, got {guess.user!r}")
        require(1 <= guess.index <= last, f"the index of conclude must be in [1, {last}], got {guess.index}")
        require_cell(guess.estimate, "the estimate of conclude", bench.n_cells)
        _require_past(guess, last, bench)


def attack_counts_fallbacks(attack: Attack, bench: Bench) -> None:
    """The optional `fallbacks` never decreases; with `separates_users`, reports of one user do not affect others."""
    require_flag(AttackCapabilities.separates_users, attack)
    if AttackCapabilities.separates_users.of(attack):
        _require_separate_users(attack, bench)
    fallbacks = require_count(AttackCapabilities.fallbacks, attack)
    for index, output in enumerate(range(bench.channel.n_outputs), start=1):
        _observed(attack, "ann", index, output, bench)
        fallbacks = require_count(AttackCapabilities.fallbacks, attack, at_least=fallbacks)
        require_share(AttackCapabilities.dropped, attack)


def _require_separate_users(attack: Attack, bench: Bench) -> None:
    """Require the same estimates of a user with and without reports of another one."""
    alone, among_others = copy.deepcopy(attack), copy.deepcopy(attack)
    for index, output in enumerate(range(bench.channel.n_outputs), start=1):
        _observed(among_others, "bob", index, bench.channel.n_outputs - index, bench)
        one, other = (_observed(each, "ann", index, output, bench) for each in (alone, among_others))
        same = (one.estimate, tuple(one.revised)) == (other.estimate, tuple(other.revised))
        require(same, f"`separates_users` is True, but reports of bob change the guess for query {index} of ann")


def _observed(attack: Attack, user: str, index: int, output: int, bench: Bench) -> Guess:
    guess = attack.observe(Report(user, index, 300 * index, output, bench.channel))
    require(isinstance(guess, Guess), f"observe must return a Guess, got {guess!r}")
    return guess


def _require_past(guess: Guess, index: int, bench: Bench) -> None:
    for past, estimate in guess.revised:
        require(1 <= past < index, f"the index of a revised estimate must be in [1, {index}), got {past}")
        require_cell(estimate, f"the estimate of query {past}", bench.n_cells)


def _require_same_estimate(guess: Guess, output: int, bench: Bench) -> None:
    """Require that `estimate_by_output`, if there is one, agrees with the estimate."""
    if guess.estimate_by_output is None:
        return
    shape = np.shape(guess.estimate_by_output)
    expected = (bench.channel.n_outputs,)
    require(shape == expected, f"estimate_by_output must have shape {expected}, got {shape}")
    by_output = guess.estimate_by_output[output]
    same = by_output == guess.estimate
    require(same, f"estimate_by_output[{output}] must be the estimate, {guess.estimate}, got {by_output}")
