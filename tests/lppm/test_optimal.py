"""Optimal designs against closed forms, plain programs, remapped mechanisms and qif; their promises on the matrix."""

from __future__ import annotations

import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

from sim.errors import InputError
from sim.interfaces import FloatArray
from sim.lppm import cache, linear
from sim.lppm.designs import optimal_privacy, optimal_quality
from sim.lppm.designs.exponential import Exponential
from sim.lppm.designs.location_hiding import LocationHiding
from sim.lppm.designs.optimal_privacy import OptimalPrivacy, OptimalPrivacyParameters
from sim.lppm.designs.optimal_quality import OptimalQuality
from sim.lppm.linear import LinearProgram, Solution, SolverError
from sim.lppm.optimal_design import CHANNELS
from sim.lppm.programs import MostError, exceeded, most_error, promised, unbeaten
from sim.world.distance import Distance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.distances.semantic import semantic
from sim.world.grid import Grid
from tests.support import made

GRID = Grid.rectangle(rows=3, cols=3, width_km=3.9, height_km=3.3)
N = GRID.n_cells
ONE_WAY = Distance(
    kind="file",
    matrix_km=np.random.default_rng(5).uniform(0.5, 2.0, (N, N)) * (1 - np.eye(N)) * (euclidean(GRID).matrix_km + 0.2),
)
DISTANCES = {"manhattan": manhattan(GRID), "euclidean": euclidean(GRID), "one-way": ONE_WAY}
PAIRS = [(p, q) for p in DISTANCES for q in DISTANCES]
SOLVERS: list[Any] = [
    "ipm",
    "simplex",
    pytest.param("clarabel", marks=pytest.mark.skipif(find_spec("clarabel") is None, reason="no clarabel here")),
]


@pytest.fixture(autouse=True)
def _forgetful() -> None:
    CHANNELS.clear_memory()


def some_prior(seed: int, n: int = N) -> FloatArray:
    """Return a prior with mass in most cells."""
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(n, 0.7)) * (rng.random(n) < 0.7)
    prior[0] += 0.1
    return np.asarray(prior / prior.sum())


def loss_km(matrix: FloatArray, prior: FloatArray, distance: Distance) -> float:
    return float((prior[:, None] * matrix * distance.matrix_km).sum())


def error_km(matrix: FloatArray, prior: FloatArray, distance: Distance) -> float:
    """Return the error of the best guess for each output."""
    return float(((prior[:, None] * matrix).T @ distance.matrix_km).min(axis=1).sum())


def guessing_km(prior: FloatArray, distance: Distance) -> float:
    """Return the error, or the loss, without any report."""
    return float((prior @ distance.matrix_km).min())


def epsilon_of(matrix: FloatArray, distance_km: FloatArray) -> float:
    """Return the largest log-ratio of two rows over their distance, pair by pair."""
    used = matrix[:, matrix.max(axis=0) > 0]
    return max(
        float(np.log(used[x] / used[y]).max() / min(distance_km[x, y], distance_km[y, x]))
        for x in range(len(used))
        for y in range(len(used))
        if x != y
    )


def textbook_privacy(prior: FloatArray, d_p: FloatArray, d_q: FloatArray, budget_km: float) -> float:
    """Solve Shokri et al.'s program as it is written: variables f[x, z] and u[z], a row for each output and guess."""
    n = prior.size
    f = np.arange(n * n).reshape(n, n)
    upper = np.zeros((n * n + 1, n * n + n))
    for z in range(n):
        for y in range(n):
            upper[z * n + y, f[:, z]] = -prior * d_p[:, y]
            upper[z * n + y, n * n + z] = 1
    upper[-1, : n * n] = (prior[:, None] * d_q).ravel()
    equal = np.zeros((n, n * n + n))
    for x in range(n):
        equal[x, f[x]] = 1
    cost = np.concatenate([np.zeros(n * n), -np.ones(n)])
    limits = np.append(np.zeros(n * n), budget_km)
    found: Any = linprog(cost, A_ub=upper, b_ub=limits, A_eq=equal, b_eq=np.ones(n))
    return -float(found.fun)


def textbook_quality(prior: FloatArray, d_x: FloatArray, d_q: FloatArray, epsilon: float) -> float:
    """Solve Bordenabe et al.'s program with a row for every pair of cells and output."""
    n = prior.size
    f = np.arange(n * n).reshape(n, n)
    rows = []
    for x in range(n):
        for y in range(n):
            for z in range(n) if x != y else ():
                row = np.zeros(n * n)
                row[f[x, z]], row[f[y, z]] = 1, -np.exp(epsilon * min(d_x[x, y], d_x[y, x]))
                rows.append(row)
    equal = np.kron(np.eye(n), np.ones(n))
    cost = (prior[:, None] * d_q).ravel()
    found: Any = linprog(cost, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=equal, b_eq=np.ones(n))
    return float(found.fun)


# Most privacy ----------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0.02, 1.3), kind=st.sampled_from(["manhattan", "euclidean"]))
def test_with_one_distance_the_error_is_the_budget_or_that_of_guessing(seed: int, share: float, kind: str) -> None:
    prior, distance = some_prior(seed), DISTANCES[kind]
    most_km = guessing_km(prior, distance)
    design = OptimalPrivacy(
        OptimalPrivacyParameters(quality_budget_km=share * most_km),
        quality_distance=distance,
        privacy_distance=distance,
    )
    matrix = design(prior).matrix()
    assert error_km(matrix, prior, distance) == pytest.approx(min(share, 1.0) * most_km, abs=1e-6)
    assert loss_km(matrix, prior, distance) <= share * most_km + 1e-9


@pytest.mark.parametrize("make", [Exponential, LocationHiding])
@pytest.mark.parametrize("kind", ["manhattan", "euclidean"])
def test_with_one_distance_it_is_as_good_as_a_remapped_mechanism_of_that_loss(make: Any, kind: str) -> None:
    prior, distance = some_prior(3), DISTANCES[kind]
    for budget_km in (0.3, 0.8):
        remapped = made(make, distance=distance, quality_budget_km=budget_km)(prior).matrix()
        spent_km = loss_km(remapped, prior, distance)
        design = OptimalPrivacy(
            OptimalPrivacyParameters(quality_budget_km=spent_km), quality_distance=distance, privacy_distance=distance
        )
        best = error_km(design(prior).matrix(), prior, distance)
        assert best == pytest.approx(error_km(remapped, prior, distance), abs=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("privacy", "quality"), PAIRS)
def test_it_is_as_good_as_the_program_as_it_is_written(privacy: str, quality: str, solver: linear.Solver) -> None:
    d_p, d_q = DISTANCES[privacy], DISTANCES[quality]
    for seed, budget_km in ((1, 0.4), (2, 1.1)):
        prior = some_prior(seed)
        assert (prior == 0).any()
        design = OptimalPrivacy(
            OptimalPrivacyParameters(quality_budget_km=budget_km, solver=solver),
            quality_distance=d_q,
            privacy_distance=d_p,
        )
        matrix = design(prior).matrix()
        want_km = textbook_privacy(prior, d_p.matrix_km, d_q.matrix_km, budget_km)
        assert error_km(matrix, prior, d_p) == pytest.approx(want_km, abs=2e-6)
        assert loss_km(matrix, prior, d_q) <= budget_km + 1e-9


def test_two_cells_by_hand() -> None:
    """With d_P = 3 km and d_Q = 2 km between two cells, masses 0.6 and 0.4: error is 3/2 of the loss, up to 1.2 km."""
    d_p, d_q = (Distance(kind="file", matrix_km=km * (1 - np.eye(2))) for km in (3.0, 2.0))
    prior = np.array([0.6, 0.4])
    for budget_km, want_km in ((0.2, 0.3), (0.5, 0.75), (0.8, 1.2), (5.0, 1.2)):
        design = OptimalPrivacy(
            OptimalPrivacyParameters(quality_budget_km=budget_km), quality_distance=d_q, privacy_distance=d_p
        )
        matrix = design(prior).matrix()
        assert error_km(matrix, prior, d_p) == pytest.approx(want_km, abs=1e-6)
    assert matrix.tolist() == [[1, 0], [1, 0]]


def test_other_mechanisms_of_the_same_loss_protect_no_better() -> None:
    d_p, d_q, prior = DISTANCES["manhattan"], DISTANCES["euclidean"], some_prior(4)
    for make in (Exponential, LocationHiding):
        other = made(make, distance=d_q, quality_budget_km=0.7)(prior).matrix()
        spent_km = loss_km(other, prior, d_q)
        design = OptimalPrivacy(
            OptimalPrivacyParameters(quality_budget_km=spent_km), quality_distance=d_q, privacy_distance=d_p
        )
        assert error_km(design(prior).matrix(), prior, d_p) > error_km(other, prior, d_p) + 0.01


def test_interior_point_ends_in_the_middle_of_the_best_and_simplex_in_a_corner() -> None:
    distance, prior = DISTANCES["manhattan"], np.full(N, 1 / N)
    used = {}
    for solver in ("ipm", "simplex"):
        said: Any = {"quality_budget_km": 0.9, "solver": solver}
        matrix = made(OptimalPrivacy, quality_distance=distance, privacy_distance=distance, **said)(prior).matrix()
        used[solver] = int((matrix > 1e-6).sum())
    assert used["ipm"] > 2 * used["simplex"]


def test_a_cell_without_mass_has_the_row_of_the_nearest_with_mass() -> None:
    d_q, prior = DISTANCES["manhattan"], np.zeros(N)
    prior[[0, 2, 6]] = 0.5, 0.3, 0.2
    prior[8] = 1e-13
    matrix = OptimalPrivacy(
        OptimalPrivacyParameters(quality_budget_km=0.3), quality_distance=d_q, privacy_distance=DISTANCES["euclidean"]
    )(prior).matrix()
    assert len({tuple(matrix[cell]) for cell in (0, 2, 6)}) == 3
    for cell in (1, 3, 4, 5, 7, 8):
        nearest = min((0, 2, 6), key=lambda known: d_q.matrix_km[cell, known])
        assert matrix[cell].tolist() == matrix[nearest].tolist()


def test_no_budget_is_the_truth_unless_another_report_costs_nothing() -> None:
    d_p = DISTANCES["manhattan"]
    prior = some_prior(1)
    design = OptimalPrivacy(
        OptimalPrivacyParameters(quality_budget_km=0.0), quality_distance=DISTANCES["euclidean"], privacy_distance=d_p
    )
    assert design(prior).matrix().tolist() == np.eye(N).tolist()
    alike = np.array(d_p.matrix_km)
    alike[3:6, 3:6] = 0
    free = Distance(kind="file", matrix_km=alike)
    for solver in ("ipm", "simplex"):
        design = OptimalPrivacy(
            OptimalPrivacyParameters(quality_budget_km=0.0, solver=solver), quality_distance=free, privacy_distance=d_p
        )
        prior = np.full(N, 1 / N)
        want_km = textbook_privacy(prior, d_p.matrix_km, alike, 0.0)
        assert want_km > 0.2
        assert error_km(design(prior).matrix(), prior, d_p) == pytest.approx(want_km, abs=2e-6)


@pytest.mark.parametrize("budget_km", [0.1, 0.4])
def test_cells_at_no_distance_keep_their_own_rows(budget_km: float) -> None:
    d_p, d_q = DISTANCES["manhattan"], semantic(list("abcabcabc"[:N].ljust(N, "a")), apart_km=2.0)
    for seed in range(3):
        prior = np.random.default_rng(seed).dirichlet(np.ones(N))
        matrix = OptimalPrivacy(
            OptimalPrivacyParameters(quality_budget_km=budget_km), quality_distance=d_q, privacy_distance=d_p
        ).matrix(prior)
        assert loss_km(matrix, prior, d_q) <= budget_km + 1e-9
        want_km = textbook_privacy(prior, d_p.matrix_km, d_q.matrix_km, budget_km)
        assert error_km(matrix, prior, d_p) == pytest.approx(want_km, abs=2e-6)


def test_where_nothing_can_be_lost_nothing_is_refused() -> None:
    nowhere = semantic(["home"] * N)
    design = made(OptimalQuality, metric=DISTANCES["euclidean"], epsilon_per_km=1.0, quality_distance=nowhere)
    assert loss_km(design.matrix(some_prior(1)), some_prior(1), nowhere) == 0


# Least loss ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("metric", "quality"), PAIRS)
def test_without_dilation_it_is_as_good_as_the_program_with_every_pair(
    metric: str, quality: str, solver: linear.Solver
) -> None:
    d_x, d_q, prior = DISTANCES[metric], DISTANCES[quality], some_prior(2) * 0.9 + 0.1 / N
    design = made(
        OptimalQuality, metric=d_x, epsilon_per_km=0.8, spanner_dilation=1.0, solver=solver, quality_distance=d_q
    )
    matrix = design(prior).matrix()
    want_km = textbook_quality(prior, d_x.matrix_km, d_q.matrix_km, 0.8)
    assert loss_km(matrix, prior, d_q) == pytest.approx(want_km, abs=2e-6)
    assert epsilon_of(matrix, d_x.matrix_km) <= 0.8 + 1e-9


@pytest.mark.parametrize("metric", DISTANCES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), epsilon=st.floats(0.01, 30.0), dilation=st.floats(1.0, 2.0))
def test_the_promise_holds_between_all_cells_with_mass_or_without(
    metric: str, seed: int, epsilon: float, dilation: float
) -> None:
    d_x, d_q, prior = DISTANCES[metric], DISTANCES["manhattan"], some_prior(seed)
    design = made(OptimalQuality, metric=d_x, epsilon_per_km=epsilon, spanner_dilation=dilation, quality_distance=d_q)
    matrix = design(prior).matrix()
    assert epsilon_of(matrix, d_x.matrix_km) <= epsilon * (1 + 1e-9)
    assert loss_km(matrix, prior, d_q) <= guessing_km(prior, d_q) + 1e-5


def test_a_wider_spanner_promises_more_and_loses_more() -> None:
    d_x, d_q, prior = DISTANCES["euclidean"], DISTANCES["manhattan"], np.full(N, 1 / N)
    losses = []
    for dilation in (1.0, 1.1, 1.5):
        design = made(OptimalQuality, metric=d_x, epsilon_per_km=1.0, spanner_dilation=dilation, quality_distance=d_q)
        losses.append(loss_km(design(prior).matrix(), prior, d_q))
    assert losses[0] < losses[1] < losses[2] < 1.5 * losses[0]


def test_two_cells_of_geo_indistinguishability_by_hand() -> None:
    """Randomised response: the other cell is said with probability 1 / (1 + exp(epsilon d)), if that is worth it."""
    distance = Distance(kind="file", matrix_km=1.5 * (1 - np.eye(2)))
    other = 1 / (1 + np.exp(0.8 * 1.5))
    said: Any = {"quality_distance": distance, "metric": distance, "epsilon_per_km": 0.8}
    np.testing.assert_allclose(
        made(OptimalQuality, **said)(np.array([0.5, 0.5])).matrix(),
        [[1 - other, other], [other, 1 - other]],
        atol=1e-6,
    )
    matrix = made(OptimalQuality, **said)(np.array([0.9, 0.1])).matrix()
    np.testing.assert_allclose(matrix, [[1, 0], [1, 0]], atol=1e-6)


@pytest.mark.parametrize("metric", DISTANCES)
def test_a_budget_sets_epsilon(metric: str) -> None:
    d_x, d_q, prior = DISTANCES[metric], DISTANCES["manhattan"], some_prior(7)
    matrices = []
    for budget_km in (0.2, 0.7):
        design = made(OptimalQuality, metric=d_x, quality_budget_km=budget_km, quality_distance=d_q)
        matrices.append(design(prior).matrix())
        assert loss_km(matrices[-1], prior, d_q) == pytest.approx(budget_km, abs=2e-5)
    assert epsilon_of(matrices[0], d_x.matrix_km) > epsilon_of(matrices[1], d_x.matrix_km)
    far = made(OptimalQuality, metric=d_x, quality_budget_km=50.0, quality_distance=d_q)(prior).matrix()
    assert loss_km(far, prior, d_q) == pytest.approx(guessing_km(prior, d_q))
    assert (far == far[0]).all()
    near = made(OptimalQuality, metric=d_x, quality_budget_km=0.0, quality_distance=d_q)(prior).matrix()
    assert near.tolist() == np.eye(N).tolist()


def test_a_budget_that_no_promise_keeps_is_refused_in_words() -> None:
    d_q = DISTANCES["manhattan"]
    alike = np.array(d_q.matrix_km)
    alike[0, 8] = alike[8, 0] = 0.0
    design = made(
        OptimalQuality, metric=Distance(kind="file", matrix_km=alike), quality_budget_km=0.01, quality_distance=d_q
    )
    with pytest.raises(InputError, match=r"quality_budget_km 0\.01 cannot be kept: cells at a distance of 0 km"):
        design(np.full(N, 1 / N))


def test_no_promise_at_all_and_one_beyond_measure() -> None:
    distance, prior = DISTANCES["euclidean"], some_prior(6)
    silent = made(OptimalQuality, metric=distance, epsilon_per_km=0.0, quality_distance=distance)(prior).matrix()
    assert loss_km(silent, prior, distance) == pytest.approx(guessing_km(prior, distance))
    frank = made(OptimalQuality, metric=distance, epsilon_per_km=1e4, quality_distance=distance)(prior).matrix()
    assert loss_km(frank, prior, distance) == pytest.approx(0.0, abs=1e-6)
    assert epsilon_of(frank, distance.matrix_km) <= 1e4


# Both ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("certain", [True, False])
def test_one_cell_or_a_certain_cell_has_nothing_to_lose(certain: bool) -> None:
    alone = manhattan(Grid.rectangle(rows=1, cols=1, width_km=1.0, height_km=1.0))
    distance, prior = (DISTANCES["manhattan"], np.eye(N)[5]) if certain else (alone, np.ones(1))
    for design in (
        OptimalPrivacy(OptimalPrivacyParameters(), quality_distance=distance, privacy_distance=distance),
        made(OptimalQuality, metric=distance, epsilon_per_km=1.0, quality_distance=distance),
        made(OptimalQuality, metric=distance, quality_budget_km=1.0, quality_distance=distance),
    ):
        assert loss_km(design(prior).matrix(), prior, distance) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(
    "design",
    [
        OptimalPrivacy(
            OptimalPrivacyParameters(), quality_distance=DISTANCES["manhattan"], privacy_distance=DISTANCES["euclidean"]
        ),
        made(
            OptimalQuality, metric=DISTANCES["euclidean"], epsilon_per_km=1.0, quality_distance=DISTANCES["manhattan"]
        ),
    ],
)
def test_a_design_is_a_pure_function_of_the_prior_s_contents(design: Any) -> None:
    assert design.uses_prior
    first, second = some_prior(1), some_prior(2)
    wanted = [design(prior).matrix().tolist() for prior in (first, second)]
    assert wanted[0] != wanted[1]
    again = pickle.loads(pickle.dumps(design))
    buffer = np.empty(N)
    for one in (design, again):
        CHANNELS.clear_memory()
        for prior, matrix in ((first, wanted[0]), (second, wanted[1]), (first, wanted[0])):
            buffer[:] = prior
            assert one(buffer).matrix().tolist() == matrix


def test_what_was_solved_is_found_again_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    crow, grid, prior = DISTANCES["euclidean"], DISTANCES["manhattan"], some_prior(1)
    solved: list[FloatArray] = []

    def counted(*said: Any) -> MostError:
        solved.append(said[0])
        return most_error(*said)

    monkeypatch.setattr(optimal_privacy, "most_error", counted)
    first = OptimalPrivacy(
        OptimalPrivacyParameters(quality_budget_km=0.4), quality_distance=crow, privacy_distance=grid
    )(prior).matrix()
    CHANNELS.clear_memory()
    again = OptimalPrivacy(
        OptimalPrivacyParameters(quality_budget_km=0.4), quality_distance=crow, privacy_distance=grid
    )(prior).matrix()
    assert first.tobytes() == again.tobytes()
    assert len(solved) == 1
    others: list[dict[str, Any]] = [
        {"quality_budget_km": 0.41},
        {"solver": "simplex"},
        {"privacy_distance": crow},
        {"quality_distance": grid},
    ]
    for change in others:
        said: dict[str, Any] = {"quality_distance": crow, "privacy_distance": grid, "quality_budget_km": 0.4}
        made(OptimalPrivacy, **said | change)(prior)
    OptimalPrivacy(OptimalPrivacyParameters(quality_budget_km=0.4), quality_distance=crow, privacy_distance=grid)(
        some_prior(2)
    )
    assert len(solved) == 6


def test_what_makes_no_design_is_refused() -> None:
    distance = DISTANCES["manhattan"]
    both: dict[str, Any] = {"quality_distance": distance, "metric": distance}
    with pytest.raises(ValueError, match=r"(?s)quality_budget_km.*input_value=-1"):
        OptimalPrivacy(
            OptimalPrivacyParameters(quality_budget_km=-1.0), quality_distance=distance, privacy_distance=distance
        )
    with pytest.raises(ValueError, match="`epsilon_per_km` and `quality_budget_km` exclude each other"):
        made(OptimalQuality, epsilon_per_km=1.0, quality_budget_km=1.0, **both)
    with pytest.raises(ValueError, match=r"(?s)epsilon_per_km.*input_value=nan"):
        made(OptimalQuality, epsilon_per_km=float("nan"), **both)
    with pytest.raises(ValueError, match=r"(?s)spanner_dilation.*input_value=0.5"):
        made(OptimalQuality, epsilon_per_km=1.0, spanner_dilation=0.5, **both)
    with pytest.raises(ValueError, match=r"(?s)solver.*input_value='cplex'"):
        made(OptimalQuality, epsilon_per_km=1.0, solver="cplex", **both)


def test_a_solver_that_is_not_installed_is_told_how_to_get(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named '{name}'")

    monkeypatch.setattr(linear, "import_module", missing)
    distance = DISTANCES["manhattan"]
    for solver, how in (("clarabel", r"pip install 'lppm-sim\[optimal\]'"), ("ipm", "pip install highspy")):
        with pytest.raises(InputError, match=f"solver {solver} needs .* {how}"):
            OptimalPrivacy(
                OptimalPrivacyParameters(solver=cast(Any, solver)), quality_distance=distance, privacy_distance=distance
            )


def test_a_solver_s_answer_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that claims an error that its channel has not is found out, and so is a promise that is not kept."""
    distance, prior = DISTANCES["manhattan"], some_prior(1)
    boasting = most_error

    def boast(*said: Any) -> MostError:
        honest = boasting(*said)
        return honest._replace(claimed_km=honest.claimed_km + 1e-4)

    monkeypatch.setattr(optimal_privacy, "most_error", boast)
    with pytest.raises(SolverError, match=r"the channel's error is .* km, the solver claims .* try another `solver`"):
        OptimalPrivacy(
            OptimalPrivacyParameters(quality_budget_km=0.5), quality_distance=distance, privacy_distance=distance
        )(prior)
    monkeypatch.setattr(optimal_quality, "promised", lambda channel, *_: channel * 0.5 + 0.5 * np.eye(*channel.shape))
    monkeypatch.setattr(optimal_quality, "VERIFIED", 1e-2)
    monkeypatch.setattr(optimal_quality, "verify", lambda *_: None)
    with pytest.raises(SolverError, match=r"a log-ratio is .* above epsilon d"):
        made(OptimalQuality, metric=distance, epsilon_per_km=1.0, quality_distance=distance)(np.full(N, 1 / N))


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_program_without_a_solution_is_no_answer(solver: linear.Solver) -> None:
    program = LinearProgram(
        cost=np.ones(1),
        matrix=sparse.csc_array(np.ones((2, 1))),
        row_lower=np.array([2.0, -np.inf]),
        row_upper=np.array([np.inf, 1.0]),
        lower=np.zeros(1),
    )
    with pytest.raises(SolverError, match="did not solve the mechanism's program of 1 variables and 2 rows"):
        linear.solve(program, solver)


@pytest.mark.parametrize("solver", SOLVERS)
def test_multipliers_say_what_a_limit_is_worth(solver: linear.Solver) -> None:
    """Min 2a + 3b with a + b >= 4, a <= 3, a - b = 1 (no limit of a binds): a = 2.5, b = 1.5."""
    program = LinearProgram(
        cost=np.array([2.0, 3.0]),
        matrix=sparse.csc_array(np.array([[1.0, 1.0], [1.0, 0.0], [1.0, -1.0]])),
        row_lower=np.array([4.0, -3.0, 1.0]),
        row_upper=np.array([np.inf, 3.0, 1.0]),
        lower=np.array([0.0, -np.inf]),
    )
    found: Solution = linear.solve(program, solver)
    assert found.value == pytest.approx(9.5, abs=1e-6)
    assert found.bound == pytest.approx(9.5, abs=1e-6)
    assert found.variables == pytest.approx([2.5, 1.5], abs=1e-6)
    assert found.multipliers == pytest.approx([2.5, 0.0, -0.5], abs=1e-6)


def test_a_channel_that_nearly_keeps_a_promise_is_mended_by_next_to_nothing() -> None:
    metric_km = DISTANCES["manhattan"].matrix_km
    right = made(
        OptimalQuality, metric=DISTANCES["manhattan"], epsilon_per_km=1.0, quality_distance=DISTANCES["manhattan"]
    )(some_prior(2) * 0.9 + 0.1 / N).matrix()
    wrong = np.maximum(right - 1e-9 * np.random.default_rng(0).random(right.shape), 0)
    wrong /= wrong.sum(axis=1, keepdims=True)
    assert exceeded(wrong, metric_km, 1.0) > 1e-9
    mended = promised(wrong, metric_km, 1.0)
    assert exceeded(mended, metric_km, 1.0) <= 1e-12
    assert np.abs(mended - right).max() < 1e-6


def test_what_is_beaten_everywhere_is_left_out() -> None:
    """Two cells of a row: only what lies between them is worth reporting, and with ties the first."""
    distance_km = DISTANCES["manhattan"].matrix_km
    assert unbeaten(distance_km[[0, 2]], np.array([0, 2])).tolist() == [0, 1, 2]
    assert unbeaten(distance_km[[0, 4]], np.array([0, 4])).tolist() == [0, 1, 3, 4]
    same = np.array([[0.0, 1.0, 1.0], [1.0, 0.5, 0.5]])
    assert unbeaten(same, np.array([0])).tolist() == [0, 1]


def test_qif_finds_the_same() -> None:
    qif: Any = pytest.importorskip("qif", reason="qif is not installed")
    prior, distance = some_prior(2) * 0.9 + 0.1 / N, DISTANCES["euclidean"]
    d_km = distance.matrix_km
    design = made(OptimalQuality, metric=distance, epsilon_per_km=0.8, spanner_dilation=1.0, quality_distance=distance)
    theirs = qif.mechanism.d_privacy.min_loss_given_d(prior, N, lambda x, y: 0.8 * d_km[x, y], lambda w, x: d_km[w, x])
    assert loss_km(design(prior).matrix(), prior, distance) == pytest.approx(loss_km(theirs, prior, distance), abs=1e-5)
    most = OptimalPrivacy(
        OptimalPrivacyParameters(quality_budget_km=0.7),
        quality_distance=distance,
        privacy_distance=DISTANCES["manhattan"],
    )
    theirs = qif.mechanism.l_risk.max_risk_given_max_loss(
        prior, N, N, 0.7, lambda w, x: DISTANCES["manhattan"].matrix_km[w, x], lambda z, x: d_km[z, x]
    )
    want = error_km(theirs, prior, DISTANCES["manhattan"])
    assert error_km(most(prior).matrix(), prior, DISTANCES["manhattan"]) == pytest.approx(want, abs=1e-5)
