"""Numba versions (kernels) of the most time-consuming loops, and the choice between them and NumPy.

Kernels are used if numba is installed, unless LPPM_SIM_KERNELS is `plain`. A function with a numba version calls
`compiled()` and falls back to NumPy if that returns None. The NumPy version is the reference, and tests compare the
two. Both give the same results up to rounding, so the manifest of a run records which one it used (`describe`), and a
run uses the same one throughout. Each module of kernels mirrors the module of its NumPy versions.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sim.errors import InputError
from sim.interfaces import FloatArray, IntArray

VARIABLE = "LPPM_SIM_KERNELS"
_NUMBA_SETTINGS = Path(".numba_config.yaml")


@dataclass(frozen=True, slots=True)
class Kernels:
    """The numba version of every function that has one."""

    condition: Callable[[FloatArray, FloatArray, FloatArray], float]
    predict: Callable[[FloatArray, FloatArray], FloatArray]
    decide: Callable[[FloatArray, int, int], int]
    decide_each: Callable[[FloatArray, FloatArray, int, int], IntArray]
    refine: Callable[[IntArray, FloatArray], IntArray]
    append: Callable[[FloatArray, FloatArray, IntArray, IntArray], int]
    constrained_newton: Callable[
        [FloatArray, FloatArray, FloatArray, IntArray, FloatArray, int, int, int, float, int, FloatArray],
        tuple[float, int, float, bool],
    ]
    remap_product: Callable[[FloatArray, FloatArray, FloatArray], IntArray]
    remap_hiding: Callable[[float, float, FloatArray, int, int], IntArray]
    columns_product: Callable[[FloatArray, FloatArray, IntArray, IntArray], FloatArray]
    columns_hiding: Callable[[float, float, IntArray, IntArray], FloatArray]
    smooth: Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
    remap_exponential: Callable[[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, IntArray], None]
    distance_sums: Callable[[FloatArray, FloatArray, IntArray, FloatArray, FloatArray, FloatArray], FloatArray]
    run_entries: Callable[..., FloatArray]
    scatter: Callable[[FloatArray, Any, Any, Any, int], FloatArray]
    gather: Callable[[FloatArray, Any, Any, Any], FloatArray]
    forward_counted: Callable[[FloatArray, Any, Any, FloatArray, FloatArray, FloatArray], None]
    tangent: Callable[[FloatArray, FloatArray, FloatArray, float, float], tuple[float, ...]]
    estimates_product: Callable[[FloatArray, FloatArray, IntArray, FloatArray, float, IntArray], int]
    estimates_hiding: Callable[[float, float, IntArray, FloatArray, int, IntArray], int]
    row_product: Callable[[FloatArray, FloatArray, IntArray, int, FloatArray], None]
    column_product: Callable[[FloatArray, FloatArray, IntArray, int, FloatArray], None]
    expected_distance: Callable[[FloatArray, IntArray, FloatArray], float]
    joint_metrics: Callable[[FloatArray, FloatArray, IntArray, FloatArray], tuple[float, float, float]]
    planar_entries: Callable[..., FloatArray]
    planar_membership: Callable[..., IntArray]
    hiding_in_windows: Callable[..., IntArray]


@cache  # one choice per process: numba is loaded at most once, and the call is in the hot path
def compiled() -> Kernels | None:
    """Import and return the numba kernels, or return None if the NumPy functions are to be used."""
    choice = os.environ.get(VARIABLE, "")
    if choice not in ("", "plain", "numba"):
        raise InputError(f"{VARIABLE} must be plain, numba or empty, found {choice!r}", code="unknown-kernels")
    if choice == "plain":
        return None
    _refuse_numba_settings()
    try:
        from sim.inference.kernels import (
            bayes,
            estimates,
            exponential,
            geometric_median,
            groups,
            newton,
            planar,
            remap,
            theory,
            transitions,
        )
    except ImportError as error:
        if choice == "numba":
            raise InputError(
                f"{VARIABLE}=numba requires numba ({error}): pip install 'lppm-sim[fast]'", code="missing-extra"
            ) from error
        if find_spec("numba") is not None:
            warnings.warn(f"numba is installed but cannot be imported, falling back to NumPy: {error}", stacklevel=2)
        return None
    except RuntimeError as error:
        raise InputError(
            f"numba has no writable folder for compiled code ({error}): set NUMBA_CACHE_DIR to a writable folder, "
            f"or set {VARIABLE}=plain",
            code="no-kernel-cache",
        ) from error
    return Kernels(
        condition=bayes.condition,
        predict=bayes.predict,
        decide=bayes.decide,
        decide_each=bayes.decide_each,
        refine=groups.refine,
        append=groups.append,
        constrained_newton=newton.constrained_newton,
        remap_product=remap.remap_product,
        remap_hiding=remap.remap_hiding,
        columns_product=remap.columns_product,
        columns_hiding=remap.columns_hiding,
        smooth=exponential.smooth,
        remap_exponential=exponential.remap_exponential,
        distance_sums=exponential.distance_sums,
        run_entries=exponential.run_entries,
        scatter=exponential.scatter,
        gather=exponential.gather,
        forward_counted=transitions.forward_counted,
        tangent=geometric_median.tangent,
        estimates_product=estimates.estimates_product,
        estimates_hiding=estimates.estimates_hiding,
        row_product=estimates.row_product,
        column_product=estimates.column_product,
        expected_distance=estimates.expected_distance,
        joint_metrics=theory.joint_metrics,
        planar_entries=planar.planar_entries,
        planar_membership=planar.planar_membership,
        hiding_in_windows=planar.hiding_in_windows,
    )


def _refuse_numba_settings() -> None:
    """Reject a numba settings file in the current folder: it can name a cache from which numba would run code."""
    if "numba" not in sys.modules and _NUMBA_SETTINGS.exists():
        raise InputError(
            f"the current folder contains {_NUMBA_SETTINGS}, which can make numba run code from any cache folder: "
            f"use another folder, remove the file, or set {VARIABLE}=plain",
            code="unsafe-numba-settings",
        )


def load(*, on_compile: Callable[[], None]) -> Kernels | None:
    """Return `compiled()`; call `on_compile` once if numba must compile code that is not in its cache."""
    if os.environ.get(VARIABLE) == "plain":
        return compiled()
    with compilation_notice(on_compile):
        return compiled()


@contextmanager
def compilation_notice(on_compile: Callable[[], None]) -> Iterator[None]:
    """Call `on_compile` before the first compilation by numba inside the block, but not for code from its cache."""
    _refuse_numba_settings()
    try:
        from numba.core import event
    except ImportError:  # no numba, or a version without events: no notice is possible
        yield
        return

    class Notice(event.Listener):
        done = False

        def on_start(self, _event: Any) -> None:
            if not self.done:
                self.done = True
                on_compile()

        def on_end(self, _event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Notice()):
        yield


def describe() -> str:
    """Return the name of the kernels in use: ``plain``, or ``numba`` and its version."""
    if compiled() is None:
        return "plain"
    import numba

    return f"numba {numba.__version__}"
