"""Measures: curves of users compared with each other or with the theory, panel by panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from sim.analysis.curves import curve_of_user, user_points
from sim.interfaces import FloatArray
from sim.paper.claims.verdicts import Judge, Measured, Verdict, apart, judged
from sim.paper.panels import AT_KM, BASES, NAMES
from sim.paper.studies import Study

Curves = dict[str, tuple[FloatArray, FloatArray]]
"""Of each user the losses, sorted, and the adversary's errors at them."""
StudyCurves = Mapping[Study, Mapping[str, Curves]]
"""The curves of each series of each study."""
Measure = Callable[[StudyCurves], tuple[Measured, ...]]
"""Compute the rows of a claim."""

LOW = 0.50
"""A very low privacy: less than half of the quality loss."""

FROM_KM = 0.5
"""Below this loss, a share of the loss means little."""


def compared(one: Curves, other: Curves | None) -> FloatArray:
    """Return, by user, how much higher one curve lies than the other, or than nothing, as a mean share of the loss.

    Users who reach no common loss are left out.
    """
    shares = []
    for user in sorted(one.keys() if other is None else one.keys() & other.keys()):
        lines = [one[user]] if other is None else [one[user], other[user]]
        at = AT_KM[AT_KM >= FROM_KM]
        for losses, _ in lines:
            at = at[(at >= losses[0]) & (at <= losses[-1])]
        if at.size:
            errors = [np.interp(at, *line) for line in lines]
            shares.append(float(np.mean((errors[0] - (errors[1] if other else 0.0)) / at)))
    return np.array(shares)


def curves_of(users: pd.DataFrame) -> dict[str, Curves]:
    """Return the curves of each series; takes a table of `panels.series_of`."""
    points = user_points(users)
    return {
        str(series): {str(user): curve_of_user(own) for user, own in of_series.groupby("user")}
        for series, of_series in points.groupby("lppm")
    }


def untested(_: StudyCurves) -> tuple[Measured, ...]:
    """Measure nothing."""
    return ()


def differences(studies: Sequence[Study], pairs: Sequence[tuple[str, str]], judge: Judge) -> Measure:
    """Compare two series of a study, user by user."""
    return lambda curves: tuple(
        judged(_place(study), f"{one} - {other}", compared(curves[study][one], curves[study][other]), judge)
        for study in studies
        for one, other in pairs
    )


def shortfalls(studies: Sequence[Study], series: Sequence[str], judge: Judge) -> Measure:
    """Compare series with the theory, P_AE = Q-bar."""
    return lambda curves: tuple(
        judged(_place(study), f"Q-bar - {name}", 1 - compared(curves[study][name], None), judge)
        for study in studies
        for name in series
    )


def least_protected(studies: Sequence[Study], series: Sequence[str]) -> Measure:
    """Look for a user with a very low privacy."""
    return lambda curves: tuple(_lowest(study, name, curves[study][name]) for study in studies for name in series)


def markov_and_sporadic(pairs: Sequence[tuple[Study, Study]], trainings: Sequence[str], judge: Judge) -> Measure:
    """Compare MK of one study with SP of another, for the same users."""
    return lambda curves: tuple(
        judged(
            _place(markov),
            f"mk-{training} - sp-{training}",
            compared(curves[markov][f"mk-{training}"], curves[sporadic][f"sp-{training}"]),
            judge,
        )
        for markov, sporadic in pairs
        for training in trainings
    )


def cabs_and_checkins(places: Sequence[tuple[str, str]], judge: Judge) -> Measure:
    """Compare MK with rich training on cabs with that on check-ins of each dataset and base."""
    return lambda curves: tuple(
        apart(
            f"TaxiCab and {NAMES[dataset]}, {BASES[base]}",
            "mk-rich, cabs - check-ins",
            compared(curves[Study("mk", "taxicab", base)]["mk-rich"], None),
            compared(curves[Study("mk", dataset, base)]["mk-rich"], None),
            judge,
        )
        for dataset, base in places
    )


def exponential_and_hiding(pairs: Sequence[tuple[Study, Study]], trainings: Sequence[str], judge: Judge) -> Measure:
    """Compare MK-Exp of one study with MK-LH of another, for the same users."""
    return lambda curves: tuple(
        judged(
            f"{NAMES[exp.dataset]}, Exp and LH",
            f"mk-{training}, Exp - LH",
            compared(curves[exp][f"mk-{training}"], curves[lh][f"mk-{training}"]),
            judge,
        )
        for exp, lh in pairs
        for training in trainings
    )


def _place(study: Study) -> str:
    return f"{NAMES[study.dataset]}, {BASES[study.base]}"


def _lowest(study: Study, series: str, curves: Curves) -> Measured:
    """Return the share of the user with the least privacy."""
    label = f"least protected user, {series}"
    shares = compared(curves, None)
    if not shares.size:
        return Measured(_place(study), label, float("nan"), float("nan"), 0, "cannot be told")
    verdict: Verdict = "holds" if shares.min() < LOW else "does not hold"
    return Measured(_place(study), label, float(shares.min()), float("nan"), 1, verdict)
