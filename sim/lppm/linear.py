"""Linear programs and their solvers: HiGHS (interior point or simplex), and Clarabel if it is installed.

Programs of mechanisms have many optimal solutions. Interior point without crossover ends in the interior of the
optimal face, which is a better mechanism than a vertex found by the simplex method (Oya et al., CCS 2017, Sect. 6). It
also avoids the crossover, which can dominate the run time. SciPy cannot disable the crossover, so HiGHS is called
directly through highspy (12 MB). Solvers use one thread, so that solutions do not depend on the number of cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy import sparse

from sim.errors import InputError, UserError
from sim.interfaces import BoolArray, FloatArray

Solver = Literal["ipm", "simplex", "clarabel"]

_PACKAGE = {"ipm": "highspy", "simplex": "highspy", "clarabel": "clarabel"}
_INSTALL = {"highspy": "pip install highspy", "clarabel": "pip install 'lppm-sim[optimal]'"}
_TOLERANCE = 1e-9
_REDUCED_TOLERANCE = 1e-7
"""Tolerance that Clarabel may fall back to; every solution is verified afterwards."""


class SolverError(UserError):
    """A linear program that was not solved, or not solved accurately enough."""

    code = "solver-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearProgram:
    """Minimise cost . v subject to row_lower <= matrix @ v <= row_upper and lower <= v; limits may be infinite."""

    cost: FloatArray
    matrix: sparse.csc_array
    row_lower: FloatArray
    row_upper: FloatArray
    lower: FloatArray


class Solution(NamedTuple):
    """Optimal solution of a linear program."""

    value: float
    """Cost of the solution."""
    bound: float
    """Lower bound of the cost that the multipliers prove, up to the solver's tolerance."""
    variables: FloatArray
    """Values of the variables."""
    multipliers: FloatArray
    """Change of the optimal cost per unit of each row's limit."""


def require(solver: str) -> str:
    """Return the name and version of a solver; raise InputError if it is unknown or not installed."""
    if solver not in _PACKAGE:
        raise InputError(f"solver must be one of {', '.join(get_args(Solver))}, got {solver!r}", code="unknown-solver")
    package = _PACKAGE[solver]
    try:
        import_module(package)
    except ImportError as error:
        raise InputError(
            f"solver {solver} needs {package}, which is not installed ({error}): {_INSTALL[package]}",
            code="missing-extra",
        ) from error
    return f"{solver} of {package} {version(package)}"


def solve(program: LinearProgram, solver: Solver) -> Solution:
    """Solve a program to optimality; raise SolverError with the solver's status otherwise."""
    require(solver)
    variables, multipliers = _clarabel(program) if solver == "clarabel" else _highs(program, solver)
    limits = np.where(multipliers > 0, program.row_lower, program.row_upper)
    bound = float(multipliers @ np.where(np.isfinite(limits), limits, 0.0))
    return Solution(float(program.cost @ variables), bound, variables, multipliers)


def _highs(program: LinearProgram, solver: Solver) -> tuple[FloatArray, FloatArray]:
    highspy: Any = import_module("highspy")
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = program.matrix.shape
    lp.col_cost_, lp.col_lower_ = program.cost, program.lower
    lp.col_upper_ = np.full(program.cost.size, np.inf)
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = program.matrix.indptr
    lp.a_matrix_.index_ = program.matrix.indices
    lp.a_matrix_.value_ = program.matrix.data
    outcome = ""
    # If the interior point method misses its tolerances, retry with crossover, then with the simplex method.
    for method, crossover in (("ipx", "off"), ("ipx", "on"), ("simplex", "off"))[2 if solver == "simplex" else 0 :]:
        highs = highspy.Highs()
        for option, value in {
            "output_flag": False,
            "threads": 1,
            "solver": method,
            "run_crossover": crossover,
            "primal_feasibility_tolerance": _TOLERANCE,
            "dual_feasibility_tolerance": _TOLERANCE,
            "ipm_optimality_tolerance": _TOLERANCE,
        }.items():
            highs.setOptionValue(option, value)
        highs.passModel(lp)
        highs.run()
        if highs.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            solution = highs.getSolution()
            return np.array(solution.col_value), np.array(solution.row_dual)
        outcome = highs.modelStatusToString(highs.getModelStatus())
    raise _unsolved(program, f"HiGHS ({solver})", outcome)


def _clarabel(program: LinearProgram) -> tuple[FloatArray, FloatArray]:
    clarabel: Any = import_module("clarabel")
    lower, upper = program.row_lower, program.row_upper
    equal = lower == upper
    at_most, at_least = ~equal & np.isfinite(upper), ~equal & np.isfinite(lower)
    bounded = np.isfinite(program.lower)
    rows = program.matrix.tocsr()
    stacked = sparse.vstack(
        [rows[equal], rows[at_most], -rows[at_least], -sparse.eye_array(program.cost.size, format="csr")[bounded]]
    )
    limits = np.concatenate([upper[equal], upper[at_most], -lower[at_least], -program.lower[bounded]])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _TOLERANCE
    settings.reduced_tol_gap_abs = settings.reduced_tol_gap_rel = settings.reduced_tol_feas = _REDUCED_TOLERANCE
    n_equal = int(equal.sum())
    cones = [clarabel.ZeroConeT(n_equal), clarabel.NonnegativeConeT(limits.size - n_equal)]
    quadratic = sparse.csc_matrix((program.cost.size,) * 2)
    solver = clarabel.DefaultSolver(quadratic, program.cost, sparse.csc_matrix(stacked), limits, cones, settings)
    solution = solver.solve()
    if str(solution.status) not in ("Solved", "AlmostSolved"):
        raise _unsolved(program, "Clarabel", str(solution.status))
    return np.array(solution.x), _signed(np.array(solution.z), equal, at_most, at_least)


def _signed(cone_duals: FloatArray, equal: BoolArray, at_most: BoolArray, at_least: BoolArray) -> FloatArray:
    """Return the multipliers of the program's rows, given those of the rows passed to Clarabel."""
    multipliers = np.zeros(equal.size)
    first, second = int(equal.sum()), int(equal.sum() + at_most.sum())
    multipliers[equal] = -cone_duals[:first]
    multipliers[at_most] -= cone_duals[first:second]
    multipliers[at_least] += cone_duals[second : second + int(at_least.sum())]
    return multipliers


def _unsolved(program: LinearProgram, solver: str, status: str) -> SolverError:
    rows, columns = program.matrix.shape
    return SolverError(
        f"{solver} did not solve the linear program of the mechanism ({columns:,} variables, {rows:,} rows): {status}; "
        "try another `solver` or other parameters"
    )
