"""Measurements of claims: curves of users compared with each other or with the theory, in each panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from sim.analysis.curves import curve_of_user, user_points
from sim.interfaces import FloatArray
from sim.paper.claims.verdicts import Judge, Measured, Verdict, group_difference, judged
from sim.paper.panels import AT_KM, BASES, NAMES
from sim.paper.studies import Study

Curves = dict[str, tuple[FloatArray, FloatArray]]
"""For each user, sorted quality losses and the adversary's errors at them."""
StudyCurves = Mapping[Study, Mapping[str, Curves]]
"""The curves of each series of each study."""
Measure = Callable[[StudyCurves], tuple[Measured, ...]]
"""Function that computes the measurements of a claim."""

LOW = 0.50
"""Limit of "very little privacy" as a share of the quality loss."""

FROM_KM = 0.5
"""Smallest quality loss in km that is compared: ratios to smaller losses are unstable."""


def compared(one: Curves, other: Curves | None) -> FloatArray:
    """Return, for each user, the mean difference of two curves relative to the loss; without `other`, of one curve.

    Users without a common loss are omitted.
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
    """Return the curves of each series, given a table of `panels.series_of`."""
    points = user_points(users)
    return {
        str(series): {str(user): curve_of_user(own) for user, own in of_series.groupby("user")}
        for series, of_series in points.groupby("lppm")
    }


def untested(_: StudyCurves) -> tuple[Measured, ...]:
    """Return no measurements, for a claim that is not tested."""
    return ()


def differences(studies: Sequence[Study], pairs: Sequence[tuple[str, str]], judge: Judge) -> Measure:
    """Compare pairs of series of a study for the same users."""
    return lambda curves: tuple(
        judged(_panel_name(study), f"{one} - {other}", compared(curves[study][one], curves[study][other]), judge)
        for study in studies
        for one, other in pairs
    )


def shortfalls(studies: Sequence[Study], series: Sequence[str], judge: Judge) -> Measure:
    """Compare series with the theory, P_AE = Q-bar."""
    return lambda curves: tuple(
        judged(_panel_name(study), f"Q-bar - {name}", 1 - compared(curves[study][name], None), judge)
        for study in studies
        for name in series
    )


def least_protected(studies: Sequence[Study], series: Sequence[str]) -> Measure:
    """Measure the privacy of the least protected user."""
    return lambda curves: tuple(_lowest(study, name, curves[study][name]) for study in studies for name in series)


def markov_and_sporadic(pairs: Sequence[tuple[Study, Study]], trainings: Sequence[str], judge: Judge) -> Measure:
    """Compare MK of one study with SP of another, for the same users."""
    return lambda curves: tuple(
        judged(
            _panel_name(markov),
            f"mk-{training} - sp-{training}",
            compared(curves[markov][f"mk-{training}"], curves[sporadic][f"sp-{training}"]),
            judge,
        )
        for markov, sporadic in pairs
        for training in trainings
    )


def cabs_and_checkins(pairs: Sequence[tuple[str, str]], judge: Judge) -> Measure:
    """Compare MK with rich training between cabs and the check-in users of each data set and base mechanism."""
    return lambda curves: tuple(
        group_difference(
            f"TaxiCab and {NAMES[dataset]}, {BASES[base]}",
            "mk-rich, cabs - check-ins",
            compared(curves[Study("mk", "taxicab", base)]["mk-rich"], None),
            compared(curves[Study("mk", dataset, base)]["mk-rich"], None),
            judge,
        )
        for dataset, base in pairs
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


def _panel_name(study: Study) -> str:
    return f"{NAMES[study.dataset]}, {BASES[study.base]}"


def _lowest(study: Study, series: str, curves: Curves) -> Measured:
    """Return the relative privacy of the least protected user."""
    label = f"least protected user, {series}"
    shares = compared(curves, None)
    if not shares.size:
        return Measured(_panel_name(study), label, float("nan"), float("nan"), 0, "undecided")
    verdict: Verdict = "holds" if shares.min() < LOW else "does not hold"
    return Measured(_panel_name(study), label, float(shares.min()), float("nan"), 1, verdict)
