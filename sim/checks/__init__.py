"""Contract checks for anybody's component: what the simulator relies on, tried on a small world."""

from __future__ import annotations

import inspect
import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import numpy as np

from sim.attack.parameters import StatisticsOf
from sim.components.imports import FAULTS_OF_CODE, ComponentError, construct, defined_in, load_class
from sim.components.permission import CodeAccess
from sim.components.registry import METHODS
from sim.events import Guess, Report, Visit
from sim.inference.bayes import distribution
from sim.interfaces import (
    Attack,
    AttackCapabilities,
    Belief,
    BeliefCapabilities,
    Channel,
    ChannelCapabilities,
    Demand,
    Design,
    DesignCapabilities,
    FloatArray,
    Mobility,
    OutputSpace,
    OwnOutputs,
    has_own_outputs,
)
from sim.lppm import outputs
from sim.lppm.channel import exponential
from sim.mobility.traces import Trace
from sim.mobility.training import Statistics, statistics
from sim.rng import stream
from sim.simulation.interrupts import ComponentExit, contained
from sim.world import World
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from sim.world.roads.lattice import lattice

MOST_VISITS = 100_000
"""So many visits are an endless life to a demand: one that asks for more before it queries is not lazy."""

Check = Callable[[Any, "Bench"], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One check and, if it failed, what was wrong."""

    check: str
    problem: str | None


class Bench:
    """The small world that components are tried in: 3 x 4 cells, streets, and one recorded user."""

    def __init__(self) -> None:
        grid = Grid.rectangle(rows=3, cols=4, width_km=4.0, height_km=3.0)
        distance = manhattan(grid)
        roads = lattice(grid, rng=stream(0, "bench"))
        self.world = World(grid=grid, roads=roads, privacy_distance=distance, quality_distance=distance)
        cells = stream(0, "cells").integers(0, 6, size=60)
        self.statistics: Statistics = statistics([Trace("ann", np.arange(60), cells)], n_cells=grid.n_cells)
        self.channel = exponential(distance, 0.8)

    def given(self, family: str) -> dict[str, Any]:
        """Return what the simulator passes to the constructor of a family, besides the scenario's own parameters."""
        passed: dict[str, dict[str, Any]] = {
            "mobility": {"world": self.world, "seed": 1},
            "demand": {},
            "belief": {"statistics": self.statistics, "restart_s": None},
            "design": {"world": self.world},
            "attack": {
                "world": self.world,
                "statistics_of": StatisticsOf({"ann": self.statistics, "bob": self.statistics}),
            },
        }
        return passed[family]


def check(component: str, *, family: str | None = None, parameters: dict[str, Any] | None = None) -> list[Outcome]:
    """Import ``module:Class``, which runs its code, and put it through the checks of its family."""
    if family is not None and family not in METHODS:
        raise ComponentError(f"family must be one of {', '.join(METHODS)}, got {family!r}")
    bench, access = Bench(), CodeAccess(allowed=True)
    family = family or _family(load_class(component, access), component)
    given, said = bench.given(family), parameters or {}
    made = "can be made from a scenario"
    if taken := sorted(given.keys() & said.keys()):
        return [Outcome(made, f"{component}: the simulator itself passes {', '.join(taken)}")]
    try:
        with contained(component):
            construct(component, family, access, **given, **said)
    except (ComponentError, ComponentExit) as error:
        return [Outcome(made, str(error))]
    return [
        Outcome(made, None),
        *check_made(family, lambda: construct(component, family, access, **given, **said), bench),
    ]


def _family(component: type[Any], name: str) -> str:
    """Return the first family whose methods a class defines."""
    if defined_in(component, "channel") is not None and defined_in(component, "observe") is not None:
        raise ComponentError(
            f"{name}: it defines channel and observe, so it is a whole LPPM, for which there are no checks: scenarios "
            "compose LPPMs from a belief and a design. Check these; if it is an attack, add --as attack"
        )
    for family, methods in METHODS.items():
        if all(defined_in(component, method) is not None for method in methods):
            return family
    expected = "; ".join(f"{family}: {', '.join(methods)}" for family, methods in METHODS.items())
    raise ComponentError(f"{name}: its family is not clear from its methods ({expected}); name it with --as")


def check_made(family: str, make: Callable[[], Any], bench: Bench | None = None) -> list[Outcome]:
    """Put what `make` makes, anew for each check, through the checks of a family."""
    bench = bench or Bench()
    return [_outcome(test, make, bench) for test in CHECKS[family]]


def _outcome(test: Check, make: Callable[[], Any], bench: Bench) -> Outcome:
    title = inspect.cleandoc(test.__doc__ or test.__name__).splitlines()[0].rstrip(".")
    try:
        with contained("component code"):
            test(make(), bench)
    except (_Broken, ComponentExit) as broken:
        return Outcome(title, str(broken))
    except FAULTS_OF_CODE as error:
        return Outcome(title, f"raised {type(error).__name__}: {error}")
    return Outcome(title, None)


class _Broken(Exception):
    """A contract is not kept; says how."""


def _require(condition: bool | np.bool_, problem: str) -> None:
    if not condition:
        raise _Broken(problem)


def _require_distribution(values: Any, n_cells: int, what: str) -> None:
    array = np.asarray(values)
    _require(array.shape == (n_cells,), f"{what} must have shape ({n_cells},), got {array.shape}")
    try:
        distribution(array, what)
    except ValueError as error:
        raise _Broken(str(error)) from error


def _priors(bench: Bench) -> Iterator[FloatArray]:
    n = bench.world.grid.n_cells
    yield np.full(n, 1 / n)
    yield bench.statistics.profile.copy()
    one = np.zeros(n)
    one[5] = 1
    yield one


# Designs ---------------------------------------------------------------------------------------------------------


def _countless(channel: Channel) -> bool:
    return bool(ChannelCapabilities.countless.of(channel))


def _drawn(channel: Channel, cell: int, count: int) -> list[int]:
    rng = stream(3, "samples")
    return [channel.sample(cell, rng) for _ in range(count)]


def design_gives_probabilities(design: Design, bench: Bench) -> None:
    """Every row of the channel is a distribution over outputs, which are the cells unless it has a `space`."""
    n = bench.world.grid.n_cells
    for prior in _priors(bench):
        channel = design(prior)
        if _countless(channel):
            _require_likelihoods(channel, n)
            continue
        own = has_own_outputs(channel)
        _require(own or channel.n_outputs == n, f"n_outputs must be the number of cells, {n}, got {channel.n_outputs}")
        matrix, shape = channel.matrix(), (n, channel.n_outputs)
        _require(np.shape(matrix) == shape, f"matrix() must have shape {shape}, got {np.shape(matrix)}")
        for cell, row in enumerate(matrix):
            _require_distribution(row, channel.n_outputs, f"row {cell} of the channel")


def _require_likelihoods(channel: Channel, n_cells: int) -> None:
    """Require of a channel with too many outputs to list that it knows those that it draws, and lists none."""
    for cell in range(n_cells):
        for output in _drawn(channel, cell, 5):
            found = np.asarray(channel.likelihood(output))
            _require(found.shape == (n_cells,), f"likelihood({output}) must have shape ({n_cells},), got {found.shape}")
            fine = bool(np.isfinite(found).all() and (found >= 0).all())
            _require(fine, f"likelihood({output}) must be finite and at least 0, got {found.min()} to {found.max()}")
            _require(found[cell] > 0, f"sample({cell}) drew output {output}, to which likelihood gives 0 there")
    for name, ask in (
        ("row", lambda: channel.row(0)),
        ("matrix", channel.matrix),
        ("likelihoods", channel.likelihoods),
    ):
        try:
            ask()
        except FAULTS_OF_CODE as error:
            _require(bool(str(error)), f"{name} must say why it refuses, got {error!r}")
        else:
            raise _Broken(f"it says countless = True, but {name} lists its outputs")


def design_is_one_channel(design: Design, bench: Bench) -> None:
    """`row`, `likelihood` and `likelihoods` are rows and columns of `matrix`."""
    for prior in _priors(bench):
        channel: Channel = design(prior)
        if _countless(channel):
            continue
        matrix = channel.matrix()
        for output in range(channel.n_outputs):
            same = np.allclose(channel.likelihood(output), matrix[:, output], atol=1e-12)
            _require(same, f"likelihood({output}) differs from column {output} of matrix()")
        possible, rows = channel.likelihoods()
        _require(
            np.array_equal(possible, np.flatnonzero(matrix.any(axis=0))),
            "likelihoods() lists other outputs than matrix()",
        )
        _require(
            np.allclose(rows, matrix[:, possible].T, atol=1e-12), "likelihoods() differs from the columns of matrix()"
        )
        for cell in range(bench.world.grid.n_cells):
            _require(
                np.allclose(channel.row(cell), matrix[cell], atol=1e-12), f"row({cell}) differs from matrix()[{cell}]"
            )


def design_samples_what_it_says(design: Design, bench: Bench) -> None:
    """`sample` draws outputs with the probabilities of `row`."""
    draws = 4000
    for prior in _priors(bench):
        channel = design(prior)
        if _countless(channel):
            _require(_drawn(channel, 5, 20) == _drawn(channel, 5, 20), "the same stream gave other outputs")
            continue
        drawn = np.bincount(_drawn(channel, 5, draws), minlength=channel.n_outputs) / draws
        row = channel.row(5)
        _require(not drawn[row == 0].any(), "sample(5) drew an output that row(5) gives probability 0")
        # Five standard deviations, and one draw for outputs that are hardly ever seen.
        allowed = 5 * np.sqrt(np.maximum(row * (1 - row), 0) / draws) + 1 / draws
        worst = int(np.argmax(np.abs(drawn - row) - allowed))
        _require(
            bool(abs(drawn[worst] - row[worst]) <= allowed[worst]),
            f"sample(5) drew output {worst} in a share of {drawn[worst]:.4f}, row(5) says {row[worst]:.4f}",
        )


def design_is_pure(design: Design, bench: Bench) -> None:
    """The same prior gives the same channel, and is not changed."""
    first = []
    for prior in _priors(bench):
        given = prior.copy()
        first.append(_told(design(given)))
        _require(np.array_equal(given, prior), "the prior was changed")
    # Backwards: each prior now follows another one than before.
    again = [_told(design(prior)) for prior in reversed(list(_priors(bench)))]
    same = all(map(np.array_equal, first, reversed(again)))
    _require(same, "two calls with the same prior gave different channels")
    ignores = not DesignCapabilities.uses_prior.of(design)
    alike = all(np.array_equal(told, first[0]) for told in first)
    _require(alike or not ignores, "it says uses_prior = False, but the prior matters")


def _told(channel: Channel) -> FloatArray:
    """Return what tells a channel from another: all of it, or the likelihoods of what it draws."""
    if not _countless(channel):
        return np.array(channel.matrix())
    return np.stack([channel.likelihood(output) for output in _drawn(channel, 5, 20)])


def design_knows_its_outputs(design: Design, bench: Bench) -> None:
    """One whose outputs are no cells says what they are and what they cost, whatever the prior."""
    for prior in _priors(bench):
        channel = cast(OwnOutputs, design(prior))
        space, declared = ChannelCapabilities.space.of(channel), DesignCapabilities.space.of(design)
        _require(
            space == declared,
            f"the design must have the `space` of its channels, got {declared!r} and {space!r}",
        )
        if space is not None:
            _require_space(channel, space, bench)


def _require_space(channel: OwnOutputs, space: OutputSpace, bench: Bench) -> None:
    n = bench.world.grid.n_cells
    again = outputs.read(json.loads(json.dumps(space.describe())), bench.world.grid)
    _require(again == space, f"the manifest must say all of a space, got {again!r} from what {space!r} describes")
    for output in {output for cell in range(n) for output in _drawn(channel, cell, 5)}:
        named = space.cells(output)
        _require(all(0 <= cell < n for cell in named), f"output {output} names cells in [0, {n}), got {named}")
        shown = space.shown_at(output)
        _require(-1 <= shown < n, f"output {output} is shown at a cell in [0, {n}) or at -1, got {shown}")
        _require(bool(named) == (output != space.nothing), f"output {output} names {named}, nothing is {space.nothing}")
        losses = [channel.loss_of_km(cell, output) for cell in range(n)]
        _require(bool(np.isfinite(losses).all() and min(losses) >= 0), f"losses must be in [0, inf), got {losses}")
    for cell in range(n):
        expected = channel.expected_loss_of_km(cell)
        _require(0 <= expected < np.inf, f"expected_loss_of_km({cell}) must be in [0, inf), got {expected}")
        if not channel.countless:
            by_row = sum(p * channel.loss_of_km(cell, z) for z, p in enumerate(channel.row(cell)) if p > 0)
            _require(
                bool(np.isclose(expected, by_row)), f"expected_loss_of_km({cell}) is {expected}, the row says {by_row}"
            )


# Beliefs ---------------------------------------------------------------------------------------------------------


def _reports(bench: Bench) -> Iterator[tuple[int, FloatArray]]:
    reported = stream(4, "outputs").integers(0, bench.channel.n_outputs, size=12).tolist()
    for index, output in enumerate(reported):
        yield 300 * index, bench.channel.likelihood(output)


def belief_is_a_distribution(belief: Belief, bench: Bench) -> None:
    """Prior and posterior are distributions over cells, report after report."""
    n = bench.world.grid.n_cells
    for time_s, likelihood in _reports(bench):
        _require_distribution(belief.prior(time_s), n, f"the prior at {time_s} s")
        _require_distribution(belief.observe(time_s, likelihood), n, f"the posterior at {time_s} s")


def belief_changes_by_observing_alone(belief: Belief, bench: Bench) -> None:
    """`prior` is pure: asking twice gives the same, and `observe` leaves its input as it was."""
    for time_s, likelihood in _reports(bench):
        before, first = likelihood.copy(), np.array(belief.prior(time_s))
        _require(np.array_equal(first, belief.prior(time_s)), f"two calls of prior({time_s}) differ")
        belief.observe(time_s, likelihood)
        _require(np.array_equal(before, likelihood), "observe changed the likelihood it was given")
        # Mechanisms with a fixed belief are shared by users and never told of reports.
        same = np.array_equal(first, belief.prior(time_s))
        _require(same or not BeliefCapabilities.fixed.of(belief), "it says fixed = True, but observe changed its prior")


def belief_can_be_copied(belief: Belief, bench: Bench) -> None:
    """A pickled copy goes on as the original does: workers need it."""
    reports = list(_reports(bench))
    for time_s, likelihood in reports[:6]:
        belief.observe(time_s, likelihood)
    copy: Belief = pickle.loads(pickle.dumps(belief))
    for time_s, likelihood in reports[6:]:
        same = np.allclose(belief.observe(time_s, likelihood), copy.observe(time_s, likelihood), atol=1e-9)
        _require(same, f"the copy's posterior at {time_s} s differs from the original's")


# Mobility and demand ---------------------------------------------------------------------------------------------


def mobility_is_in_order(mobility: Mobility, bench: Bench) -> None:
    """Visits come in order of time, in whole seconds, in cells of the grid."""
    for user in mobility.users(3):
        _require_in_order(islice(mobility.visits(user, stream(5, "moves", user)), 200), bench)


def _require_in_order(visits: Iterable[Visit], bench: Bench) -> None:
    last = None
    for visit in visits:
        _require(isinstance(visit, Visit), f"must be a Visit, got {visit!r}")
        _require(int(visit.time_s) == visit.time_s, f"time_s must be a whole number of seconds, got {visit.time_s!r}")
        _require(last is None or visit.time_s >= last, f"time went back from {last} to {visit.time_s} s")
        _require_cell(visit.cell, "cell", bench)
        last = visit.time_s


def _require_cell(cell: Any, what: str, bench: Bench) -> None:
    n = bench.world.grid.n_cells
    _require(0 <= cell < n and int(cell) == cell, f"{what} must be a cell, a whole number in [0, {n}), got {cell!r}")


def mobility_names_differ(mobility: Mobility, _bench: Bench) -> None:
    """Users have different names, the same ones each time."""
    users = list(mobility.users(3))
    _require(all(isinstance(user, str) for user in users), f"user ids must be texts, got {users!r}")
    _require(len(set(users)) == len(users) > 0, f"user ids must differ and be one or more, got {users!r}")
    _require(len(users) <= 3, f"users(3) must be three or fewer, got {len(users)}")
    _require(users == list(mobility.users(3)), "two calls of users(3) differ")
    _require(users == list(mobility.users(None))[:3], "users(3) are not the first of users(None)")


def mobility_repeats(mobility: Mobility, _bench: Bench) -> None:
    """The same random stream gives the same visits, whoever else was asked before."""
    user, *others = mobility.users(2)
    first = list(islice(mobility.visits(user, stream(6, "moves")), 100))
    for other in others:
        list(islice(mobility.visits(other, stream(7, "moves")), 50))
    _require(first == list(islice(mobility.visits(user, stream(6, "moves")), 100)), "the same stream gave other visits")


def _walk(bench: Bench) -> Iterator[Visit]:
    """Yield a life that knows every other cell only."""
    rng = stream(8, "walk")
    time_s = 0
    for _ in range(MOST_VISITS):
        time_s += int(rng.integers(1, 2000))
        yield Visit(time_s, int(rng.integers(bench.world.grid.n_cells)) // 2 * 2)
    raise _Broken(f"{MOST_VISITS:,} visits were taken: lives are endless, queries must come in between")


def demand_is_in_order(demand: Demand, bench: Bench) -> None:
    """Queries come in order of time, from endless visits too, and repeat with their random stream."""
    found = list(islice(demand.queries(_walk(bench), stream(9, "moments")), 100))
    _require_in_order(found, bench)
    again = list(islice(demand.queries(_walk(bench), stream(9, "moments")), 100))
    _require(found == again, "the same stream gave other queries")


def demand_knows_where_she_is(demand: Demand, bench: Bench) -> None:
    """A query comes from a cell that the user has visited."""
    visited: set[int] = set()

    def watched() -> Iterator[Visit]:
        for visit in _walk(bench):
            visited.add(visit.cell)
            yield visit

    for query in islice(demand.queries(watched(), stream(9, "moments")), 50):
        _require(query.cell in visited, f"the query at {query.time_s} s is from cell {query.cell}, never visited")


# Attacks ---------------------------------------------------------------------------------------------------------


def attack_answers(attack: Attack, bench: Bench) -> None:
    """Every report is answered for its user and index with a cell of the grid."""
    before = bench.channel.matrix().copy()
    for index, output in enumerate(range(bench.channel.n_outputs), start=1):
        for user in ("ann", "bob"):
            guess = attack.observe(Report(user, index, 300 * index, output, bench.channel))
            _require(isinstance(guess, Guess), f"observe must return a Guess, got {guess!r}")
            answered = (guess.user, guess.index)
            _require(answered == (user, index), f"asked for {user}, {index}; answered {guess.user}, {guess.index}")
            _require_cell(guess.estimate, "estimate", bench)
            _require_foreseen(guess, output, bench)
    _require(np.array_equal(before, bench.channel.matrix()), "the channel was changed")


def attack_revises_the_past_alone(attack: Attack, bench: Bench) -> None:
    """What it says again, with a report or in the end, is about earlier queries, and a cell of the grid."""
    for index, output in enumerate(range(bench.channel.n_outputs), start=1):
        guess = attack.observe(Report("ann", index, 300 * index, output, bench.channel))
        _require(isinstance(guess, Guess), f"observe must return a Guess, got {guess!r}")
        _require_past(guess, index, bench)
    for guess in AttackCapabilities.conclude.of(attack)():
        _require(isinstance(guess, Guess), f"conclude must return guesses, got {guess!r}")
        _require(guess.user == "ann", f"conclude spoke of {guess.user}, whom nobody has seen")
        _require_past(guess, bench.channel.n_outputs, bench)


def _require_past(guess: Guess, index: int, bench: Bench) -> None:
    for past, estimate in guess.revised:
        _require(1 <= past < index, f"revised must be about queries before {index}, from 1 on, got {past}")
        _require_cell(estimate, f"the estimate of query {past}", bench)


def _require_foreseen(guess: Guess, output: int, bench: Bench) -> None:
    """Require of an attack that tells what it would have answered that it answers so."""
    if guess.estimate_by_output is None:
        return
    shape = np.shape(guess.estimate_by_output)
    _require(shape == (bench.channel.n_outputs,), f"estimate_by_output must have an entry per output, got {shape}")
    foreseen = guess.estimate_by_output[output]
    _require(foreseen == guess.estimate, f"estimate_by_output says {foreseen}, estimate {guess.estimate}")


CHECKS: dict[str, Sequence[Check]] = {
    "design": (
        design_gives_probabilities,
        design_is_one_channel,
        design_samples_what_it_says,
        design_knows_its_outputs,
        design_is_pure,
    ),
    "belief": (belief_is_a_distribution, belief_changes_by_observing_alone, belief_can_be_copied),
    "mobility": (mobility_names_differ, mobility_is_in_order, mobility_repeats),
    "demand": (demand_is_in_order, demand_knows_where_she_is),
    "attack": (attack_answers, attack_revises_the_past_alone),
}
