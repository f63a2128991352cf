"""Each way to be wrong fails the contract check that looks for it, and that one alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sim import checks
from sim.belief.fixed_profile import FixedProfile
from sim.checks import CHECKS, Bench, check_made
from sim.events import Guess, Report, Visit
from sim.interfaces import Channel, FloatArray, Generator, IntArray, OutputSpace
from sim.lppm.dropping import Dropping, DroppingParameters
from sim.lppm.outputs import Cells


class Around:
    """A channel that is its matrix, and can be made to lie."""

    def __init__(self, matrix: FloatArray) -> None:
        self._matrix = matrix
        self._limits = matrix.cumsum(axis=1)

    @property
    def n_outputs(self) -> int:
        return int(self._matrix.shape[1])

    def sample(self, cell: int, rng: Generator) -> int:
        return int(self._limits[cell].searchsorted(rng.random() * self._limits[cell, -1], side="right"))

    def likelihood(self, output: int) -> FloatArray:
        return self._matrix[:, output]

    def row(self, cell: int) -> FloatArray:
        return np.asarray(self._matrix[cell])

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        outputs = np.flatnonzero(self._matrix.any(axis=0))
        return outputs, self._matrix[:, outputs].T

    def matrix(self) -> FloatArray:
        return self._matrix


class Uniform:
    """A good design: any cell, whatever the prior."""

    def __init__(self, bench: Bench) -> None:
        self.n_cells = bench.world.grid.n_cells

    def __call__(self, prior: FloatArray) -> Channel:
        return Around(self.matrix(prior))

    def matrix(self, prior: FloatArray) -> FloatArray:
        return np.full((self.n_cells, self.n_cells), 1 / self.n_cells)


class SumsToMore(Uniform):
    def __call__(self, prior: FloatArray) -> Channel:
        return Around(1.001 * self.matrix(prior))


class FewOutputs(Uniform):
    def __call__(self, prior: FloatArray) -> Channel:
        return Around(np.full((self.n_cells, 2), 0.5))


class NegativeProbability(Uniform):
    def __call__(self, prior: FloatArray) -> Channel:
        matrix = self.matrix(prior)
        matrix[3, :2] += [0.2, -0.2]
        return Around(matrix)


class SamplesAnotherCell(Uniform):
    def __call__(self, prior: FloatArray) -> Channel:
        class Shifted(Around):
            def sample(self, cell: int, rng: Generator) -> int:
                return super().sample((cell + 1) % 12, rng)

        return Shifted(np.eye(self.n_cells))


class SamplesOddly(Uniform):
    def __call__(self, prior: FloatArray) -> Channel:
        class Odd(Around):
            def sample(self, cell: int, rng: Generator) -> int:
                return 0 if rng.random() < 0.04 else super().sample(cell, rng)

        return Odd(self.matrix(prior))


class WrongColumn(Uniform):
    def __call__(self, prior: FloatArray) -> Channel:
        class Transposed(Around):
            def likelihood(self, output: int) -> FloatArray:
                return np.asarray(self._matrix[output])

        matrix = self.matrix(prior)
        matrix[0] = np.eye(self.n_cells)[0]
        return Transposed(matrix)


class ChangesThePrior(Uniform):
    def __call__(self, prior: FloatArray) -> Channel:
        prior[:] = 1 / prior.size
        return Around(self.matrix(prior))


class Remembers(Uniform):
    """Not a function of its prior: the channel depends on what was asked before."""

    last = 0.0

    def matrix(self, prior: FloatArray) -> FloatArray:
        mixed = (
            0.5 * super().matrix(prior) + 0.5 * np.eye(self.n_cells) if self.last < prior[0] else super().matrix(prior)
        )
        self.last = float(prior[0])
        return mixed


class SaysItIgnoresThePrior(Uniform):
    uses_prior = False

    def matrix(self, prior: FloatArray) -> FloatArray:
        return np.tile(prior, (self.n_cells, 1))


class Drops(Uniform):
    """A good design with outputs of its own: the true cell or nothing."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._drop = Dropping(DroppingParameters(drop_probability=0.5), distance=bench.world.quality_distance)
        self.space: OutputSpace | None = self._drop.space

    def __call__(self, prior: FloatArray) -> Any:
        return self._drop(prior)


class KeepsItsSpaceToItself(Drops):
    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.space = None


class SumsToMoreWithASpace(Drops):
    def __call__(self, prior: FloatArray) -> Any:
        channel = super().__call__(prior)
        matrix = 1.001 * channel.matrix()
        lies: dict[str, Any] = {"matrix": lambda: matrix, "row": matrix.__getitem__}
        lies["likelihood"] = matrix.T.__getitem__
        lies["expected_loss_of_km"] = lambda cell: 1.001 * channel.expected_loss_of_km(cell)
        return Spoiled(channel, likelihoods=lambda: (np.arange(13), matrix.T), **lies)


class Spoiled:
    """Another object, but for what is said."""

    def __init__(self, of: Any, **instead: Any) -> None:
        self._of, self._instead = of, instead

    def __getattr__(self, name: str) -> Any:
        return self._instead[name] if name in self._instead else getattr(self._of, name)


class CostsOtherwise(Drops):
    def __call__(self, prior: FloatArray) -> Any:
        return Spoiled(super().__call__(prior), expected_loss_of_km=lambda _cell: 9.5)


class CostsLessThanNothing(Drops):
    def __call__(self, prior: FloatArray) -> Any:
        return Spoiled(super().__call__(prior), loss_of_km=lambda *_: -1.0)


class NamesNoCells(Drops):
    """Its space takes every output for a cell, the one for nothing too."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.space = Cells(self.n_cells)

    def __call__(self, prior: FloatArray) -> Any:
        return Spoiled(super().__call__(prior), space=self.space)


class ListsTheCountless(Drops):
    def __call__(self, prior: FloatArray) -> Any:
        return Spoiled(super().__call__(prior), countless=True)


class DrawsTheImpossible(Drops):
    def __call__(self, prior: FloatArray) -> Any:
        return Spoiled(super().__call__(prior), countless=True, likelihood=lambda _output: np.eye(12)[0])


class Good(FixedProfile):
    """A good belief, to be spoiled."""

    fixed = False

    def __init__(self, bench: Bench) -> None:
        super().__init__(profile=bench.statistics.profile)


class CountsCalls(Good):
    calls = 0

    def prior(self, time_s: int) -> FloatArray:
        self.calls += 1
        return super().prior(time_s) if self.calls % 2 else np.full(12, 1 / 12)


class EatsTheLikelihood(Good):
    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        posterior = super().observe(time_s, likelihood)
        likelihood *= 0.5
        return posterior


class Unnormalised(Good):
    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        return self.prior(time_s) * likelihood


class OneCellShort(Good):
    def prior(self, time_s: int) -> FloatArray:
        return np.full(11, 1 / 11)

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        return np.full(12, 1 / 12)


class CannotBeCopied(Good):
    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.update = lambda: None


class ForgetsWhenCopied(Good):
    seen = 0

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        self.seen += 1
        share = 1 / self.seen
        return share * super().observe(time_s, likelihood) + (1 - share) / 12

    def __getstate__(self) -> dict[str, Any]:
        return {"_profile": self._profile, "fallbacks": 0}


class LearnsButSaysFixed(Good):
    fixed = True

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        self._profile = super().observe(time_s, likelihood)
        return self._profile


class Walk:
    """A good mobility: two users who step to the next cell every minute."""

    names: Sequence[Any] = ("u1", "u2", "u3", "u4")
    step: Any = 60
    first = 0

    def __init__(self, _bench: Bench) -> None: ...

    def users(self, count: int | None) -> Sequence[str]:
        return self.names[:count]

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        cell = int(rng.integers(12))
        for index in range(300):
            yield Visit(self.step * index, (cell + index) % 12 + self.first)


class GoesBackInTime(Walk):
    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        for visit in super().visits(user, rng):
            yield Visit(visit.time_s - 600 * (visit.time_s > 3000), visit.cell)


class HalfSeconds(Walk):
    step = 0.5


class LeavesTheGrid(Walk):
    first = 1


class YieldsPairs(Walk):
    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        yield (0, 3)  # type: ignore[misc]


class ForgetsTheStream(Walk):
    def __init__(self, bench: Bench) -> None:
        self._own = np.random.default_rng(1)

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        return super().visits(user, self._own)


class TwoOfOneName(Walk):
    names = ("u1", "u1")


class NumbersForNames(Walk):
    names = (1, 2, 3)


class MoreThanAskedFor(Walk):
    def users(self, count: int | None) -> Sequence[str]:
        return self.names


class NeedsACount(Walk):
    def users(self, count: int | None) -> Sequence[str]:
        return [f"u{i}" for i in range(count)]  # type: ignore[arg-type]


class Every:
    """A good demand: at every visit."""

    def __init__(self, _bench: Bench) -> None: ...

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        yield from visits


class InventsCells(Every):
    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        return (Visit(visit.time_s, 7) for visit in visits)


class Foresees(Every):
    """From where she will be only later: a cell that no visit has brought yet."""

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        return (Visit(visit.time_s, 10 - visit.cell) for visit in visits)


class QueriesOutOfOrder(Every):
    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        for visit in visits:
            yield Visit(visit.time_s + 5000, visit.cell)
            yield visit


class WaitsForTheEnd(Every):
    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        yield from list(visits)


class ThrowsItsOwnDice(Every):
    def __init__(self, bench: Bench) -> None:
        self._own = np.random.default_rng(1)

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        return (visit for visit in visits if self._own.random() < 0.5)


def answering(answer: Callable[[Report], Any]) -> Callable[[Bench], Any]:
    """Return how to make an attack that answers so."""
    return lambda _bench: SimpleNamespace(observe=answer)


def concluding(last_word: list[Any]) -> Callable[[Bench], Any]:
    """Return how to make an attack that has this last word."""
    return lambda _bench: SimpleNamespace(
        observe=lambda report: Guess(report.user, report.index, 0), conclude=lambda: last_word
    )


def breaks_the_channel(report: Report) -> Guess:
    assert report.channel is not None
    matrix = report.channel.matrix()
    matrix.flags.writeable = True
    matrix[0, 0] += 0.1
    return Guess(report.user, report.index, 0)


def asserts(report: Report) -> Guess:
    assert report.index > 1, "no first report"
    return Guess(report.user, report.index, 0)


def is_misspelled(report: Report) -> Guess:
    return Gess(report.user, report.index, 0)  # type: ignore[name-defined, no-any-return] # noqa: F821


zero = answering(lambda report: Guess(report.user, report.index, 0))
wrong_index = answering(lambda report: Guess(report.user, report.index - 1, 0))
wrong_user = answering(lambda report: Guess("ann", report.index, 0))
no_cell = answering(lambda report: Guess(report.user, report.index, 12))
half_a_cell = answering(lambda report: Guess(report.user, report.index, 1.5))  # type: ignore[arg-type]
about_now = answering(lambda report: Guess(report.user, report.index, 0, revised=[(report.index, 0)]))
about_nothing = answering(lambda report: Guess(report.user, report.index, 0, revised=[(report.index - 1, 0)]))
past_the_grid = answering(lambda report: Guess(report.user, report.index, 0, revised=[(1, 12)][: report.index - 1]))
foresees_otherwise = answering(lambda report: Guess(report.user, report.index, 0, np.ones(12, dtype=np.int64)))


OF_ATTACKS = ("attack_answers", "attack_revises_the_past_alone")

WRONG: list[tuple[str, Callable[[Bench], Any], dict[str, str]]] = [
    ("design", SumsToMore, {"design_gives_probabilities": "row 0 of the channel must sum to 1 (within 1e-09), got"}),
    ("design", FewOutputs, {"design_gives_probabilities": "n_outputs must be the number of cells, 12, got 2"}),
    ("design", NegativeProbability, {"design_gives_probabilities": "row 3 of the channel must be in [0, 1]"}),
    ("design", SamplesAnotherCell, {"design_samples_what_it_says": "drew an output that row(5) gives probability 0"}),
    ("design", SamplesOddly, {"design_samples_what_it_says": "sample(5) drew output 0 in a share of 0.1"}),
    ("design", WrongColumn, {"design_is_one_channel": "likelihood(0) differs from column 0 of matrix()"}),
    ("design", ChangesThePrior, {"design_is_pure": "the prior was changed"}),
    ("design", Remembers, {"design_is_pure": "two calls with the same prior gave different channels"}),
    ("design", SaysItIgnoresThePrior, {"design_is_pure": "uses_prior = False, but the prior matters"}),
    ("design", SumsToMoreWithASpace, {"design_gives_probabilities": "row 0 of the channel must sum to 1"}),
    ("design", KeepsItsSpaceToItself, {"design_knows_its_outputs": "must have the `space` of its channels, got None"}),
    ("design", CostsOtherwise, {"design_knows_its_outputs": "expected_loss_of_km(0) is 9.5, the row says "}),
    ("design", CostsLessThanNothing, {"design_knows_its_outputs": "losses must be in [0, inf), got [-1.0"}),
    ("design", NamesNoCells, {"design_knows_its_outputs": "output 12 names cells in [0, 12), got (12,)"}),
    ("design", ListsTheCountless, {"design_gives_probabilities": "says countless = True, but row lists its outputs"}),
    ("design", DrawsTheImpossible, {"design_gives_probabilities": "to which likelihood gives 0 there"}),
    ("belief", CountsCalls, {"belief_changes_by_observing_alone": "two calls of prior(0) differ"}),
    ("belief", EatsTheLikelihood, {"belief_changes_by_observing_alone": "observe changed the likelihood"}),
    ("belief", Unnormalised, {"belief_is_a_distribution": "the posterior at 0 s must sum to 1 (within 1e-09), got"}),
    ("belief", OneCellShort, {"belief_is_a_distribution": "the prior at 0 s must have shape (12,), got (11,)"}),
    ("belief", CannotBeCopied, {"belief_can_be_copied": "raised "}),
    ("belief", ForgetsWhenCopied, {"belief_can_be_copied": "the copy's posterior at 1800 s differs"}),
    ("belief", LearnsButSaysFixed, {"belief_changes_by_observing_alone": "fixed = True, but observe changed"}),
    ("mobility", GoesBackInTime, {"mobility_is_in_order": "time went back from 3000 to 2460 s"}),
    ("mobility", HalfSeconds, {"mobility_is_in_order": "time_s must be a whole number of seconds, got 0.5"}),
    ("mobility", LeavesTheGrid, {"mobility_is_in_order": "cell must be a cell, a whole number in [0, 12), got 12"}),
    ("mobility", YieldsPairs, {"mobility_is_in_order": "must be a Visit, got (0, 3)"}),
    ("mobility", ForgetsTheStream, {"mobility_repeats": "the same stream gave other visits"}),
    ("mobility", TwoOfOneName, {"mobility_names_differ": "user ids must differ and be one or more"}),
    ("mobility", NumbersForNames, {"mobility_names_differ": "user ids must be texts, got [1, 2, 3]"}),
    ("mobility", MoreThanAskedFor, {"mobility_names_differ": "users(3) must be three or fewer, got 4"}),
    ("mobility", NeedsACount, {"mobility_names_differ": "raised TypeError: 'NoneType'"}),
    ("demand", InventsCells, {"demand_knows_where_she_is": "is from cell 7, never visited"}),
    ("demand", Foresees, {"demand_knows_where_she_is": "never visited"}),
    ("demand", QueriesOutOfOrder, {"demand_is_in_order": "time went back from"}),
    (
        "demand",
        WaitsForTheEnd,
        dict.fromkeys(("demand_is_in_order", "demand_knows_where_she_is"), "visits were taken: lives are endless"),
    ),
    ("demand", ThrowsItsOwnDice, {"demand_is_in_order": "the same stream gave other queries"}),
    ("attack", wrong_index, {"attack_answers": "asked for ann, 1; answered ann, 0"}),
    ("attack", wrong_user, {"attack_answers": "asked for bob, 1; answered ann, 1"}),
    ("attack", no_cell, {"attack_answers": "estimate must be a cell, a whole number in [0, 12), got 12"}),
    ("attack", half_a_cell, {"attack_answers": "estimate must be a cell, a whole number in [0, 12), got 1.5"}),
    ("attack", answering(lambda _report: 0), dict.fromkeys(OF_ATTACKS, "observe must return a Guess, got 0")),
    (
        "attack",
        about_now,
        {"attack_revises_the_past_alone": "revised must be about queries before 1, from 1 on, got 1"},
    ),
    ("attack", about_nothing, {"attack_revises_the_past_alone": "before 1, from 1 on, got 0"}),
    ("attack", past_the_grid, {"attack_revises_the_past_alone": "the estimate of query 1 must be a cell"}),
    ("attack", concluding([0]), {"attack_revises_the_past_alone": "conclude must return guesses, got 0"}),
    ("attack", concluding([Guess("bob", 12, 0)]), {"attack_revises_the_past_alone": "spoke of bob, whom nobody"}),
    ("attack", concluding([Guess("ann", 12, 0, revised=[(12, 0)])]), {"attack_revises_the_past_alone": "got 12"}),
    ("attack", foresees_otherwise, {"attack_answers": "estimate_by_output says 1, estimate 0"}),
    ("attack", answering(breaks_the_channel), {"attack_answers": "the channel was changed"}),
    ("attack", answering(asserts), dict.fromkeys(OF_ATTACKS, "raised AssertionError: no first report")),
    ("attack", answering(is_misspelled), dict.fromkeys(OF_ATTACKS, "raised NameError: name 'Gess' is not defined")),
]


def failing(family: str, make: Callable[[Bench], Any]) -> dict[str, str]:
    """Return what is wrong, by the name of the check that found it."""
    bench = Bench()
    outcomes = check_made(family, partial(make, bench), bench)
    tests = CHECKS[family]
    return {test.__name__: found.problem for test, found in zip(tests, outcomes, strict=True) if found.problem}


@pytest.mark.parametrize(
    ("family", "make"),
    [("design", Uniform), ("design", Drops), ("belief", Good), ("mobility", Walk), ("demand", Every), ("attack", zero)],
)
def test_what_the_wrong_ones_are_made_from_is_right(family: str, make: Callable[[Bench], Any]) -> None:
    assert failing(family, make) == {}


@pytest.mark.parametrize(("family", "make", "words"), WRONG)
def test_a_wrong_component_fails_the_check_that_looks_for_it(
    family: str, make: Callable[[Bench], Any], words: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "MOST_VISITS", 2_000)
    found = failing(family, make)
    assert found.keys() == words.keys()
    assert all(text in found[name] for name, text in words.items())
