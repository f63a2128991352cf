"""Linear programs and who solves them: HiGHS, by interior point or simplex, and Clarabel where it is installed.

Programs of mechanisms have many best solutions. Interior point without crossover ends in the middle of them, which is
a better mechanism than the corner that a simplex ends in (Oya et al., CCS 2017, Sect. 6), and spares the crossover,
which can take longer than all the rest. scipy cannot switch the crossover off, so HiGHS is asked directly (highspy,
12 MB). One thread: what is solved must not depend on how many cores there are.
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
_HOW = {"highspy": "pip install highspy", "clarabel": "pip install 'lppm-sim[optimal]'"}
_TOLERANCE = 1e-9
_ALMOST = 1e-7
"""What Clarabel may end with where it gets no nearer; what comes of it is verified anyway."""


class SolverError(UserError):
    """A program that was not solved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearProgram:
    """Minimise cost . v with row_lower <= matrix @ v <= row_upper and lower <= v; infinite where there is no limit."""

    cost: FloatArray
    matrix: sparse.csc_array
    row_lower: FloatArray
    row_upper: FloatArray
    lower: FloatArray


class Solution(NamedTuple):
    """The least cost, where it is reached, and what a unit more of each row's limit would add to it."""

    value: float
    bound: float
    """What the multipliers prove: no solution costs less, but for the solver's tolerance."""
    variables: FloatArray
    multipliers: FloatArray


def require(solver: str) -> str:
    """Return name and version of a solver; refuse one that is unknown or not installed."""
    if solver not in _PACKAGE:
        raise InputError(f"solver must be one of {', '.join(get_args(Solver))}, got {solver!r}")
    package = _PACKAGE[solver]
    try:
        import_module(package)
    except ImportError as error:
        raise InputError(f"solver {solver} needs {package}, which is not there ({error}): {_HOW[package]}") from error
    return f"{solver} of {package} {version(package)}"


def solve(program: LinearProgram, solver: Solver) -> Solution:
    """Solve a program to optimality, or raise a SolverError that says what came of it."""
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
    # Where interior point ends short of its tolerances, a crossover cleans up, and what it cannot mend a simplex can.
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
            found = highs.getSolution()
            return np.array(found.col_value), np.array(found.row_dual)
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
    settings.reduced_tol_gap_abs = settings.reduced_tol_gap_rel = settings.reduced_tol_feas = _ALMOST
    n_equal = int(equal.sum())
    cones = [clarabel.ZeroConeT(n_equal), clarabel.NonnegativeConeT(limits.size - n_equal)]
    nothing = sparse.csc_matrix((program.cost.size,) * 2)
    found = clarabel.DefaultSolver(nothing, program.cost, sparse.csc_matrix(stacked), limits, cones, settings).solve()
    if str(found.status) not in ("Solved", "AlmostSolved"):
        raise _unsolved(program, "Clarabel", str(found.status))
    return np.array(found.x), _signed(np.array(found.z), equal, at_most, at_least)


def _signed(cone_duals: FloatArray, equal: BoolArray, at_most: BoolArray, at_least: BoolArray) -> FloatArray:
    """Return a multiplier for each row of the program from those of the rows that Clarabel was given."""
    multipliers = np.zeros(equal.size)
    first, second = int(equal.sum()), int(equal.sum() + at_most.sum())
    multipliers[equal] = -cone_duals[:first]
    multipliers[at_most] -= cone_duals[first:second]
    multipliers[at_least] += cone_duals[second : second + int(at_least.sum())]
    return multipliers


def _unsolved(program: LinearProgram, who: str, outcome: str) -> SolverError:
    rows, columns = program.matrix.shape
    return SolverError(
        f"{who} did not solve the mechanism's program of {columns:,} variables and {rows:,} rows: {outcome}; "
        "try another `solver`, or other parameters"
    )
