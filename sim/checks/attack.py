"""Contract checks of attacks."""

from __future__ import annotations

import numpy as np

from sim.checks.bench import Bench
from sim.checks.requirements import require, require_callable, require_cell, require_count
from sim.events import Guess, Report
from sim.interfaces import Attack, AttackCapabilities


def attack_answers(attack: Attack, bench: Bench) -> None:
    """Every report is answered for its user and index with a cell of the grid."""
    before = bench.channel.matrix().copy()
    for index, output in enumerate(range(bench.channel.n_outputs), start=1):
        for user in ("ann", "bob"):
            guess = _observed(attack, user, index, output, bench)
            answered = (guess.user, guess.index)
            require(answered == (user, index), f"asked for {user}, {index}; answered {guess.user}, {guess.index}")
            require_cell(guess.estimate, "estimate", bench.n_cells)
            _require_foreseen(guess, output, bench)
    require(np.array_equal(before, bench.channel.matrix()), "the channel was changed")


def attack_revises_the_past_alone(attack: Attack, bench: Bench) -> None:
    """Revised guesses, with a report or by the optional `conclude`, are about earlier queries and cells of the grid."""
    last = bench.channel.n_outputs
    for index, output in enumerate(range(last), start=1):
        _require_past(_observed(attack, "ann", index, output, bench), index, bench)
    for guess in require_callable(AttackCapabilities.conclude, attack)():
        require(isinstance(guess, Guess), f"conclude must return guesses, got {guess!r}")
        require(guess.user == "ann", f"conclude returned a guess about {guess.user}, who has sent no report")
        require(1 <= guess.index <= last, f"conclude must be about queries in [1, {last}], got {guess.index}")
        require_cell(guess.estimate, "the estimate of conclude", bench.n_cells)
        _require_past(guess, last, bench)


def attack_counts_fallbacks(attack: Attack, bench: Bench) -> None:
    """The optional `fallbacks` is a count that never decreases."""
    fallbacks = require_count(AttackCapabilities.fallbacks, attack)
    for index, output in enumerate(range(bench.channel.n_outputs), start=1):
        _observed(attack, "ann", index, output, bench)
        fallbacks = require_count(AttackCapabilities.fallbacks, attack, at_least=fallbacks)


def _observed(attack: Attack, user: str, index: int, output: int, bench: Bench) -> Guess:
    guess = attack.observe(Report(user, index, 300 * index, output, bench.channel))
    require(isinstance(guess, Guess), f"observe must return a Guess, got {guess!r}")
    return guess


def _require_past(guess: Guess, index: int, bench: Bench) -> None:
    for past, estimate in guess.revised:
        require(1 <= past < index, f"revised must be about queries before {index}, from 1 on, got {past}")
        require_cell(estimate, f"the estimate of query {past}", bench.n_cells)


def _require_foreseen(guess: Guess, output: int, bench: Bench) -> None:
    """Require `estimate_by_output`, if there is one, to agree with the estimate."""
    if guess.estimate_by_output is None:
        return
    shape = np.shape(guess.estimate_by_output)
    require(shape == (bench.channel.n_outputs,), f"estimate_by_output must have an entry per output, got {shape}")
    foreseen = guess.estimate_by_output[output]
    require(foreseen == guess.estimate, f"estimate_by_output says {foreseen}, estimate {guess.estimate}")
