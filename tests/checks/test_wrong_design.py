"""Each wrong design fails the contract check that looks for it, and no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.checks.bench import Bench
from sim.interfaces import (
    Channel,
    ChannelCapabilities,
    DesignCapabilities,
    FloatArray,
    Generator,
    IntArray,
    OutputSpace,
)
from sim.lppm.designs.dropping import Dropping, DroppingParameters
from sim.lppm.designs.planar_laplace import PlanarLaplace, PlanarLaplaceParameters
from sim.lppm.outputs import Cells
from tests.checks.contract import Make, Wrong, assert_fails, capabilities, failing, lying


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


WRONG: list[Wrong] = [
    (SumsToMore, {"design_gives_probabilities": "row 0 of the channel must sum to 1 (within 1e-09), got"}),
    (FewOutputs, {"design_gives_probabilities": "n_outputs must be the number of cells, 12, got 2"}),
    (NegativeProbability, {"design_gives_probabilities": "row 3 of the channel must be in [0, 1]"}),
    (SamplesAnotherCell, {"design_samples_what_it_says": "drew an output that row(5) gives probability 0"}),
    (SamplesOddly, {"design_samples_what_it_says": "sample(5) drew output 0 in a share of 0.1"}),
    (WrongColumn, {"design_is_one_channel": "likelihood(0) differs from column 0 of matrix()"}),
    (ChangesThePrior, {"design_is_pure": "the prior was changed"}),
    (Remembers, {"design_is_pure": "two calls with the same prior gave different channels"}),
    (SaysItIgnoresThePrior, {"design_is_pure": "uses_prior = False, but the prior matters"}),
    (SumsToMoreWithASpace, {"design_gives_probabilities": "row 0 of the channel must sum to 1"}),
    (KeepsItsSpaceToItself, {"design_knows_its_outputs": "must have the `space` of its channels, got None"}),
    (CostsOtherwise, {"design_knows_its_outputs": "expected_loss_of_km(0) is 9.5, the row says "}),
    (CostsLessThanNothing, {"design_knows_its_outputs": "losses must be in [0, inf), got [-1.0"}),
    (NamesNoCells, {"design_knows_its_outputs": "output 12 names cells in [0, 12), got (12,)"}),
    (ListsTheCountless, {"design_gives_probabilities": "says countless = True, but row lists its outputs"}),
    (DrawsTheImpossible, {"design_gives_probabilities": "to which likelihood gives 0 there"}),
]


@pytest.mark.parametrize("make", [Uniform, Drops])
def test_the_base_of_the_wrong_ones_is_right(make: Make) -> None:
    assert failing("design", make) == {}


@pytest.mark.parametrize(("make", "problems"), WRONG)
def test_a_wrong_design_fails_the_check_that_looks_for_it(make: Make, problems: dict[str, str]) -> None:
    assert_fails("design", make, problems)


class Places:
    """A good design with too many outputs to list."""

    uses_prior = False
    instead: dict[str, Any] = {}

    def __init__(self, bench: Bench) -> None:
        world = bench.world
        self._design = PlanarLaplace(
            PlanarLaplaceParameters(epsilon_per_km=1.0, discretise=False),
            grid=world.grid,
            distance=world.quality_distance,
        )
        self.space = self._design.space

    def __call__(self, prior: FloatArray) -> Any:
        return Spoiled(self._design(prior), **self.instead)


class CountlessCells(Uniform):
    """Says that its outputs are too many to list, but that they are the cells."""

    def __call__(self, prior: FloatArray) -> Any:
        def refuse(*_: Any) -> Any:
            raise ValueError("too many outputs")

        return Spoiled(super().__call__(prior), countless=True, row=refuse, matrix=refuse, likelihoods=refuse)


def channels(**instead: Any) -> Make:
    """Return how to make a countless design whose channels have other attributes."""
    return lying(Places, instead=instead)


def guaranteeing(epsilon_per_km: Any) -> Make:
    """Return how to make a countless design whose channels have one epsilon for all distances."""
    return channels(epsilon_in_per_km=None, epsilon_per_km=epsilon_per_km)


def describing(words: str) -> dict[str, str]:
    return {"design_describes_itself": words}


WRONG_CAPABILITIES: dict[str, list[Wrong]] = {
    "uses_prior": [
        (SaysItIgnoresThePrior, {"design_is_pure": "uses_prior = False, but the prior matters"}),
        (lying(Uniform, uses_prior="yes"), describing("`uses_prior` must be True or False, got 'yes'")),
    ],
    "space": [
        (
            KeepsItsSpaceToItself,
            {"design_knows_its_outputs": "must have the `space` of its channels, got None"},
        ),
        (
            lying(Uniform, space=Cells(12)),
            {"design_knows_its_outputs": "must have the `space` of its channels, got Cells"},
        ),
        (NamesNoCells, {"design_knows_its_outputs": "output 12 names cells in [0, 12), got (12,)"}),
    ],
    "countless": [
        (ListsTheCountless, {"design_gives_probabilities": "says countless = True, but row lists its outputs"}),
        (CountlessCells, describing("it says countless = True, but has no `space`")),
        (channels(countless=1), describing("`countless` must be True or False, got 1")),
    ],
    "epsilon_per_km": [
        (guaranteeing("1"), describing("`epsilon_per_km` must be a number in [0, inf], got '1'")),
        (guaranteeing(0.01), describing("`epsilon_per_km` is 0.01, but the likelihoods of output")),
    ],
    "epsilon_in_per_km": [
        (channels(epsilon_in_per_km=1.0), describing("`epsilon_in_per_km` must be a method, got 1.0")),
        (
            channels(epsilon_in_per_km=lambda _: -1.0),
            describing("(distance) must be a number in [0, inf]"),
        ),
        (
            channels(epsilon_in_per_km=lambda _: 0.01),
            describing("(distance) is 0.01, but the likelihoods"),
        ),
    ],
}


def test_a_design_with_capabilities_passes() -> None:
    assert failing("design", Places) == {}


@pytest.mark.parametrize(("make", "problems"), [wrong for wrongs in WRONG_CAPABILITIES.values() for wrong in wrongs])
def test_a_wrong_capability_fails_its_check(make: Make, problems: dict[str, str]) -> None:
    assert_fails("design", make, problems)


def test_every_capability_has_a_wrong_class() -> None:
    assert WRONG_CAPABILITIES.keys() == capabilities(DesignCapabilities, ChannelCapabilities)
