"""Optimal designs compared with closed forms, textbook programs, remapped mechanisms and qif; their guarantees."""

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

from sim.components import user_cache
from sim.errors import InputError
from sim.interfaces import FloatArray
from sim.lppm import linear
from sim.lppm.designs import optimal_privacy, optimal_quality
from sim.lppm.designs.exponential import Exponential
from sim.lppm.designs.location_hiding import LocationHiding
from sim.lppm.designs.optimal_privacy import OptimalPrivacy, OptimalPrivacyParameters
from sim.lppm.designs.optimal_quality import OptimalQuality
from sim.lppm.linear import LinearProgram, Solution, SolverError
from sim.lppm.optimal_design import CHANNELS
from sim.lppm.programs import MostError, enforce_epsilon, epsilon_violation, most_error, undominated
from sim.world.distance import Distance, MatrixDistance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.distances.semantic import semantic
from sim.world.grid import Grid
from tests.support import made, raises_code

GRID = Grid.rectangle(rows=3, cols=3, width_km=3.9, height_km=3.3)
N = GRID.n_cells
ONE_WAY = MatrixDistance(
    kind="file",
    matrix_km=np.random.default_rng(5).uniform(0.5, 2.0, (N, N)) * (1 - np.eye(N)) * (euclidean(GRID).matrix_km + 0.2),
)
DISTANCES = {"manhattan": manhattan(GRID), "euclidean": euclidean(GRID), "one-way": ONE_WAY}
PAIRS = [(p, q) for p in DISTANCES for q in DISTANCES]
SOLVERS: list[Any] = [
    "ipm",
    "simplex",
    pytest.param(
        "clarabel", marks=pytest.mark.skipif(find_spec("clarabel") is None, reason="clarabel is not installed")
    ),
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
    """Return the expected error of the optimal estimate."""
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
    """Solve Shokri et al.'s program as published: variables f[x, z] and u[z], a row for each output and guess."""
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
    solution: Any = linprog(cost, A_ub=upper, b_ub=limits, A_eq=equal, b_eq=np.ones(n))
    return -float(solution.fun)


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
    solution: Any = linprog(cost, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=equal, b_eq=np.ones(n))
    return float(solution.fun)


# Optimal privacy ----------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0.02, 1.3), kind=st.sampled_from(["manhattan", "euclidean"]))
def test_with_equal_distances_the_error_is_the_smaller_of_budget_and_guessing(
    seed: int, share: float, kind: str
) -> None:
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
def test_with_equal_distances_remapped_mechanisms_are_optimal(make: Any, kind: str) -> None:
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
def test_error_matches_the_textbook_program(privacy: str, quality: str, solver: linear.Solver) -> None:
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
    """With d_P = 3 km, d_Q = 2 km and masses 0.6 and 0.4, the error is 3/2 of the loss, up to 1.2 km."""
    d_p, d_q = (MatrixDistance(kind="file", matrix_km=km * (1 - np.eye(2))) for km in (3.0, 2.0))
    prior = np.array([0.6, 0.4])
    for budget_km, want_km in ((0.2, 0.3), (0.5, 0.75), (0.8, 1.2), (5.0, 1.2)):
        design = OptimalPrivacy(
            OptimalPrivacyParameters(quality_budget_km=budget_km), quality_distance=d_q, privacy_distance=d_p
        )
        matrix = design(prior).matrix()
        assert error_km(matrix, prior, d_p) == pytest.approx(want_km, abs=1e-6)
    assert matrix.tolist() == [[1, 0], [1, 0]]


def test_no_other_mechanism_of_the_same_loss_has_a_larger_error() -> None:
    d_p, d_q, prior = DISTANCES["manhattan"], DISTANCES["euclidean"], some_prior(4)
    for make in (Exponential, LocationHiding):
        other = made(make, distance=d_q, quality_budget_km=0.7)(prior).matrix()
        spent_km = loss_km(other, prior, d_q)
        design = OptimalPrivacy(
            OptimalPrivacyParameters(quality_budget_km=spent_km), quality_distance=d_q, privacy_distance=d_p
        )
        assert error_km(design(prior).matrix(), prior, d_p) > error_km(other, prior, d_p) + 0.01


def test_interior_point_uses_more_outputs_than_simplex() -> None:
    distance, prior = DISTANCES["manhattan"], np.full(N, 1 / N)
    used = {}
    for solver in ("ipm", "simplex"):
        parameters: Any = {"quality_budget_km": 0.9, "solver": solver}
        design = made(OptimalPrivacy, quality_distance=distance, privacy_distance=distance, **parameters)
        matrix = design(prior).matrix()
        used[solver] = int((matrix > 1e-6).sum())
    assert used["ipm"] > 2 * used["simplex"]


def test_cell_without_mass_has_the_row_of_the_nearest_cell_with_mass() -> None:
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


def test_zero_budget_uses_only_reports_without_loss() -> None:
    d_p = DISTANCES["manhattan"]
    prior = some_prior(1)
    design = OptimalPrivacy(
        OptimalPrivacyParameters(quality_budget_km=0.0), quality_distance=DISTANCES["euclidean"], privacy_distance=d_p
    )
    assert design(prior).matrix().tolist() == np.eye(N).tolist()
    alike = np.array(d_p.matrix_km)
    alike[3:6, 3:6] = 0
    free = MatrixDistance(kind="file", matrix_km=alike)
    for solver in ("ipm", "simplex"):
        design = OptimalPrivacy(
            OptimalPrivacyParameters(quality_budget_km=0.0, solver=solver), quality_distance=free, privacy_distance=d_p
        )
        prior = np.full(N, 1 / N)
        want_km = textbook_privacy(prior, d_p.matrix_km, alike, 0.0)
        assert want_km > 0.2
        assert error_km(design(prior).matrix(), prior, d_p) == pytest.approx(want_km, abs=2e-6)


@pytest.mark.parametrize("budget_km", [0.1, 0.4])
def test_cells_at_distance_zero_keep_their_rows(budget_km: float) -> None:
    d_p, d_q = DISTANCES["manhattan"], semantic(list("abcabcabc"[:N].ljust(N, "a")), apart_km=2.0)
    for seed in range(3):
        prior = np.random.default_rng(seed).dirichlet(np.ones(N))
        matrix = OptimalPrivacy(
            OptimalPrivacyParameters(quality_budget_km=budget_km), quality_distance=d_q, privacy_distance=d_p
        ).matrix(prior)
        assert loss_km(matrix, prior, d_q) <= budget_km + 1e-9
        want_km = textbook_privacy(prior, d_p.matrix_km, d_q.matrix_km, budget_km)
        assert error_km(matrix, prior, d_p) == pytest.approx(want_km, abs=2e-6)


def test_world_without_possible_loss_is_accepted() -> None:
    nowhere = semantic(["home"] * N)
    design = made(OptimalQuality, metric=DISTANCES["euclidean"], epsilon_per_km=1.0, quality_distance=nowhere)
    assert loss_km(design.matrix(some_prior(1)), some_prior(1), nowhere) == 0


# Optimal quality ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("metric", "quality"), PAIRS)
def test_loss_without_dilation_matches_the_textbook_program(metric: str, quality: str, solver: linear.Solver) -> None:
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
def test_guarantee_holds_between_all_cells_with_and_without_mass(
    metric: str, seed: int, epsilon: float, dilation: float
) -> None:
    d_x, d_q, prior = DISTANCES[metric], DISTANCES["manhattan"], some_prior(seed)
    design = made(OptimalQuality, metric=d_x, epsilon_per_km=epsilon, spanner_dilation=dilation, quality_distance=d_q)
    matrix = design(prior).matrix()
    assert epsilon_of(matrix, d_x.matrix_km) <= epsilon * (1 + 1e-9)
    assert loss_km(matrix, prior, d_q) <= guessing_km(prior, d_q) + 1e-5


def test_larger_dilation_guarantees_more_and_loses_more() -> None:
    d_x, d_q, prior = DISTANCES["euclidean"], DISTANCES["manhattan"], np.full(N, 1 / N)
    losses = []
    for dilation in (1.0, 1.1, 1.5):
        design = made(OptimalQuality, metric=d_x, epsilon_per_km=1.0, spanner_dilation=dilation, quality_distance=d_q)
        losses.append(loss_km(design(prior).matrix(), prior, d_q))
    assert losses[0] < losses[1] < losses[2] < 1.5 * losses[0]


def test_two_cells_of_geo_indistinguishability_by_hand() -> None:
    """Randomised response reports the other cell with probability 1 / (1 + exp(epsilon d)), unless a constant wins."""
    distance = MatrixDistance(kind="file", matrix_km=1.5 * (1 - np.eye(2)))
    other = 1 / (1 + np.exp(0.8 * 1.5))
    parameters: Any = {"quality_distance": distance, "metric": distance, "epsilon_per_km": 0.8}
    np.testing.assert_allclose(
        made(OptimalQuality, **parameters)(np.array([0.5, 0.5])).matrix(),
        [[1 - other, other], [other, 1 - other]],
        atol=1e-6,
    )
    matrix = made(OptimalQuality, **parameters)(np.array([0.9, 0.1])).matrix()
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


def test_infeasible_budget_is_rejected() -> None:
    d_q = DISTANCES["manhattan"]
    alike = np.array(d_q.matrix_km)
    alike[0, 8] = alike[8, 0] = 0.0
    design = made(
        OptimalQuality,
        metric=MatrixDistance(kind="file", matrix_km=alike),
        quality_budget_km=0.01,
        quality_distance=d_q,
    )
    with raises_code(InputError, "infeasible-budget") as error:
        design(np.full(N, 1 / N))
    assert "quality_budget_km 0.01" in str(error.value)


def test_epsilon_zero_and_very_large_epsilon() -> None:
    distance, prior = DISTANCES["euclidean"], some_prior(6)
    silent = made(OptimalQuality, metric=distance, epsilon_per_km=0.0, quality_distance=distance)(prior).matrix()
    assert loss_km(silent, prior, distance) == pytest.approx(guessing_km(prior, distance))
    frank = made(OptimalQuality, metric=distance, epsilon_per_km=1e4, quality_distance=distance)(prior).matrix()
    assert loss_km(frank, prior, distance) == pytest.approx(0.0, abs=1e-6)
    assert epsilon_of(frank, distance.matrix_km) <= 1e4


# Both ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("certain", [True, False])
def test_one_cell_or_a_certain_cell_has_no_loss(certain: bool) -> None:
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
def test_design_is_a_pure_function_of_the_prior(design: Any) -> None:
    assert design.uses_prior
    first, second = some_prior(1), some_prior(2)
    expected = [design(prior).matrix().tolist() for prior in (first, second)]
    assert expected[0] != expected[1]
    again = pickle.loads(pickle.dumps(design))
    buffer = np.empty(N)
    for one in (design, again):
        CHANNELS.clear_memory()
        for prior, matrix in ((first, expected[0]), (second, expected[1]), (first, expected[0])):
            buffer[:] = prior
            assert one(buffer).matrix().tolist() == matrix


def test_solutions_are_cached_by_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(user_cache.VARIABLE, str(tmp_path))
    crow, grid, prior = DISTANCES["euclidean"], DISTANCES["manhattan"], some_prior(1)
    solved: list[FloatArray] = []

    def counted(*arguments: Any) -> MostError:
        solved.append(arguments[0])
        return most_error(*arguments)

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
        base: dict[str, Any] = {"quality_distance": crow, "privacy_distance": grid, "quality_budget_km": 0.4}
        made(OptimalPrivacy, **base | change)(prior)
    OptimalPrivacy(OptimalPrivacyParameters(quality_budget_km=0.4), quality_distance=crow, privacy_distance=grid)(
        some_prior(2)
    )
    assert len(solved) == 6


def test_invalid_parameters_are_rejected() -> None:
    distance = DISTANCES["manhattan"]
    both: dict[str, Any] = {"quality_distance": distance, "metric": distance}
    with pytest.raises(ValueError, match=r"(?s)quality_budget_km.*input_value=-1"):
        OptimalPrivacy(
            OptimalPrivacyParameters(quality_budget_km=-1.0), quality_distance=distance, privacy_distance=distance
        )
    with pytest.raises(ValueError, match=r"epsilon_per_km.*quality_budget_km"):
        made(OptimalQuality, epsilon_per_km=1.0, quality_budget_km=1.0, **both)
    with pytest.raises(ValueError, match=r"(?s)epsilon_per_km.*input_value=nan"):
        made(OptimalQuality, epsilon_per_km=float("nan"), **both)
    with pytest.raises(ValueError, match=r"(?s)spanner_dilation.*input_value=0.5"):
        made(OptimalQuality, epsilon_per_km=1.0, spanner_dilation=0.5, **both)
    with pytest.raises(ValueError, match=r"(?s)solver.*input_value='cplex'"):
        made(OptimalQuality, epsilon_per_km=1.0, solver="cplex", **both)


def test_missing_solver_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named '{name}'")

    monkeypatch.setattr(linear, "import_module", missing)
    distance = DISTANCES["manhattan"]
    for solver, command in (("clarabel", "pip install 'lppm-sim[optimal]'"), ("ipm", "pip install highspy")):
        with raises_code(InputError, "missing-extra") as error:
            OptimalPrivacy(
                OptimalPrivacyParameters(solver=cast(Any, solver)), quality_distance=distance, privacy_distance=distance
            )
        assert str(error.value).startswith(f"solver {solver} ")
        assert command in str(error.value)


def test_inaccurate_solver_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong optimal value and a violated privacy constraint are both detected."""
    distance, prior = DISTANCES["manhattan"], some_prior(1)

    def wrong_value(*arguments: Any) -> MostError:
        honest = most_error(*arguments)
        return honest._replace(claimed_km=honest.claimed_km + 1e-4)

    monkeypatch.setattr(optimal_privacy, "most_error", wrong_value)
    with raises_code(SolverError, "solver-inaccurate"):
        OptimalPrivacy(
            OptimalPrivacyParameters(quality_budget_km=0.5), quality_distance=distance, privacy_distance=distance
        )(prior)
    monkeypatch.setattr(
        optimal_quality, "enforce_epsilon", lambda channel, *_: channel * 0.5 + 0.5 * np.eye(*channel.shape)
    )
    monkeypatch.setattr(optimal_quality, "VERIFIED", 1e-2)
    monkeypatch.setattr(optimal_quality, "verify", lambda *_: None)
    with raises_code(SolverError, "solver-inaccurate"):
        made(OptimalQuality, metric=distance, epsilon_per_km=1.0, quality_distance=distance)(np.full(N, 1 / N))


@pytest.mark.parametrize("solver", SOLVERS)
def test_infeasible_program_raises_solver_error(solver: linear.Solver) -> None:
    program = LinearProgram(
        cost=np.ones(1),
        matrix=sparse.csc_array(np.ones((2, 1))),
        row_lower=np.array([2.0, -np.inf]),
        row_upper=np.array([np.inf, 1.0]),
        lower=np.zeros(1),
    )
    with raises_code(SolverError, "solver-failed") as error:
        linear.solve(program, solver)
    assert "1 variables, 2 rows" in str(error.value)


@pytest.mark.parametrize("solver", SOLVERS)
def test_multipliers_are_shadow_prices(solver: linear.Solver) -> None:
    """Minimise 2a + 3b with a + b >= 4, a <= 3, a - b = 1 (a <= 3 does not bind): a = 2.5, b = 1.5."""
    program = LinearProgram(
        cost=np.array([2.0, 3.0]),
        matrix=sparse.csc_array(np.array([[1.0, 1.0], [1.0, 0.0], [1.0, -1.0]])),
        row_lower=np.array([4.0, -3.0, 1.0]),
        row_upper=np.array([np.inf, 3.0, 1.0]),
        lower=np.array([0.0, -np.inf]),
    )
    solution: Solution = linear.solve(program, solver)
    assert solution.value == pytest.approx(9.5, abs=1e-6)
    assert solution.bound == pytest.approx(9.5, abs=1e-6)
    assert solution.variables == pytest.approx([2.5, 1.5], abs=1e-6)
    assert solution.multipliers == pytest.approx([2.5, 0.0, -0.5], abs=1e-6)


def test_small_violation_is_corrected_by_a_small_change() -> None:
    metric_km = DISTANCES["manhattan"].matrix_km
    right = made(
        OptimalQuality, metric=DISTANCES["manhattan"], epsilon_per_km=1.0, quality_distance=DISTANCES["manhattan"]
    )(some_prior(2) * 0.9 + 0.1 / N).matrix()
    wrong = np.maximum(right - 1e-9 * np.random.default_rng(0).random(right.shape), 0)
    wrong /= wrong.sum(axis=1, keepdims=True)
    assert epsilon_violation(wrong, metric_km, 1.0) > 1e-9
    corrected = enforce_epsilon(wrong, metric_km, 1.0)
    assert epsilon_violation(corrected, metric_km, 1.0) <= 1e-12
    assert np.abs(corrected - right).max() < 1e-6


def test_dominated_columns_are_omitted() -> None:
    """For two cells of a row, only the cells between them are worth reporting; of equal columns, the first."""
    distance_km = DISTANCES["manhattan"].matrix_km
    assert undominated(distance_km[[0, 2]], np.array([0, 2])).tolist() == [0, 1, 2]
    assert undominated(distance_km[[0, 4]], np.array([0, 4])).tolist() == [0, 1, 3, 4]
    same = np.array([[0.0, 1.0, 1.0], [1.0, 0.5, 0.5]])
    assert undominated(same, np.array([0])).tolist() == [0, 1]


def test_qif_computes_the_same_mechanisms() -> None:
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
