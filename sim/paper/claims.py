"""What the paper says of its results, in our own words, and what these runs say of that.

A claim compares curves. Two curves of a user are compared by the mean, over the losses that both reach, of the
difference of the adversary's errors as a share of the loss. The mean over users and its 95 % interval decide: every
user's figure is a mean over replications, so that the interval covers both. Limits of words such as "slight" are fixed
here, beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from sim.analysis.curves import curve_of_user, user_points
from sim.analysis.statistics import CONFIDENCE
from sim.interfaces import FloatArray
from sim.paper.panels import AT_KM, BASES, NAMES
from sim.paper.studies import Study

Verdict = Literal["holds", "does not hold", "cannot be told"]
Judge = Callable[[float, float], Verdict]
"""Says what the ends of an interval mean."""
Curves = dict[str, tuple[FloatArray, FloatArray]]
"""Of each user the losses, sorted, and the adversary's errors at them."""

SLIGHT = 0.10
"""What is called slight, similar, close or on a par is within a tenth of the quality loss; significant is more."""

LOW = 0.50
"""What is called a very low privacy: less than half of the quality loss."""

_FROM_KM = 0.5
"""Below, a share of the loss says little."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure in one panel: a mean over users as a share of the loss, with half of its 95 % interval."""

    panel: str
    what: str
    mean: float
    half: float
    """NaN for fewer than two users."""
    users: int
    verdict: Verdict

    def __str__(self) -> str:
        interval = "" if np.isnan(self.half) else f" ± {100 * self.half:.1f}"
        return f"{100 * self.mean:+.1f}{interval} %"


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim, what was measured of it, and what that says."""

    section: str
    claim: str
    test: str
    """When it is taken to hold."""
    measured: tuple[Measured, ...]
    remark: str = ""
    """Why it cannot be told at all, or what the reason of a failure may be."""
    needed: int | None = None
    """In how many rows it has to hold; in all, unless said."""

    @property
    def verdict(self) -> Verdict:
        """It holds if enough rows say so, and does not if so many fail that no longer enough can."""
        if not self.measured:
            return "cannot be told"
        needed = len(self.measured) if self.needed is None else self.needed
        verdicts = [row.verdict for row in self.measured]
        if verdicts.count("holds") >= needed:
            return "holds"
        return "does not hold" if len(verdicts) - verdicts.count("does not hold") < needed else "cannot be told"


def above(limit: float) -> Judge:
    """Return the judge of a figure that is to lie above a limit."""
    return lambda low, high: "holds" if low > limit else "does not hold" if high < limit else "cannot be told"


def within(limit: float) -> Judge:
    """Return the judge of a figure that is to lie within ± a limit."""

    def judge(low: float, high: float) -> Verdict:
        if -limit < low and high < limit:
            return "holds"
        return "does not hold" if low > limit or high < -limit else "cannot be told"

    return judge


def compared(one: Curves, other: Curves | None) -> FloatArray:
    """Return, by user, how much higher one curve lies than the other, or than nothing, as a mean share of the loss.

    Users who reach no common loss have no figure.
    """
    found = []
    for user in sorted(one.keys() if other is None else one.keys() & other.keys()):
        lines = [one[user]] if other is None else [one[user], other[user]]
        at = AT_KM[AT_KM >= _FROM_KM]
        for losses, _ in lines:
            at = at[(at >= losses[0]) & (at <= losses[-1])]
        if at.size:
            errors = [np.interp(at, *line) for line in lines]
            found.append(float(np.mean((errors[0] - (errors[1] if other else 0.0)) / at)))
    return np.array(found)


def curves_of(users: pd.DataFrame) -> dict[str, Curves]:
    """Return the curves of each series; takes a table of `panels.series_of`."""
    points = user_points(users)
    return {
        str(series): {str(user): curve_of_user(own) for user, own in of_series.groupby("user")}
        for series, of_series in points.groupby("lppm")
    }


def findings(users: Mapping[Study, pd.DataFrame]) -> list[Finding]:
    """Weigh every claim; takes a table of `panels.series_of` for each study."""
    found = {study: curves_of(table) for study, table in users.items()}
    return [*_of_hardwired(found), *_of_learning(found), *_of_other_cabs(found)]


Found = Mapping[Study, Mapping[str, Curves]]
"""The curves of each series of each study."""


def _differences(
    found: Found, studies: Sequence[Study], pairs: Sequence[tuple[str, str]], judge: Judge
) -> tuple[Measured, ...]:
    """Compare two series of a study, user by user."""
    return tuple(
        _judged(_place(study), f"{one} - {other}", compared(found[study][one], found[study][other]), judge)
        for study in studies
        for one, other in pairs
    )


def _shortfalls(found: Found, studies: Sequence[Study], series: Sequence[str], judge: Judge) -> tuple[Measured, ...]:
    """Compare series with the theory, P_AE = Q-bar."""
    return tuple(
        _judged(_place(study), f"Q-bar - {name}", 1 - compared(found[study][name], None), judge)
        for study in studies
        for name in series
    )


_SHORT = f"by less than {SLIGHT:.0%} of Q-bar"


def _of_hardwired(found: Found) -> Iterator[Finding]:
    """Section V."""
    sporadic, markov, cabs = _STUDIES["sp"], _STUDIES["mk"], _STUDIES["cabs"]
    yield Finding(
        "Section V",
        "On the data that it was trained on, an optimal mechanism has P_AE = Q-bar.",
        "not tested",
        (),
        "No panel shows it; tests/simulation/test_enumeration.py finds it to 1e-9 by enumeration of all reports.",
    )
    yield Finding(
        "Section V, Experiment SP",
        "Mechanisms that are optimal for other people's data give test users less than the theoretical P_AE = Q-bar.",
        "Q-bar - P_AE is above 0",
        _shortfalls(found, sporadic, ("sp-scarce", "sp-rich"), above(0)),
    )
    yield Finding(
        "Section V, Experiment SP",
        "Rich training protects better on average than scarce training.",
        "rich - scarce is above 0",
        _differences(found, sporadic, [("sp-rich", "sp-scarce")], above(0)),
    )
    yield Finding(
        "Section V, Experiment SP",
        "Rich and scarce training differ slightly: neither set knows these users.",
        f"rich and scarce differ {_SHORT}",
        _differences(found, sporadic, [("sp-rich", "sp-scarce")], within(SLIGHT)),
    )
    yield Finding(
        "Section V, Experiment SP",
        "Some users, unlike those of the training data, get very little privacy.",
        f"in one row at least the least protected user has P_AE below {LOW:.0%} of Q-bar (one user, no interval)",
        tuple(_lowest(study, name, found[study][name]) for study in sporadic for name in ("sp-scarce", "sp-rich")),
        needed=1,
    )
    yield Finding(
        "Section V, Experiment MK",
        "On check-ins the optimal Markov mechanisms, too, give significantly less than P_AE = Q-bar.",
        f"Q-bar - P_AE is above {SLIGHT:.0%} of Q-bar",
        _shortfalls(found, markov, ("mk-scarce", "mk-rich"), above(SLIGHT)),
    )
    yield Finding(
        "Section V, Experiment MK",
        "Their results on check-ins are very similar to those of Experiment SP.",
        f"MK of Experiment MK and SP of Experiment SP differ {_SHORT}",
        tuple(
            _judged(
                _place(mk),
                f"mk-{training} - sp-{training}",
                compared(found[mk][f"mk-{training}"], found[sp][f"sp-{training}"]),
                within(SLIGHT),
            )
            for mk, sp in zip(markov, sporadic, strict=True)
            for training in ("scarce", "rich")
        ),
    )
    yield Finding(
        "Section V, Experiment MK",
        "On cabs, whose roads are in the training data, Markov mechanisms come close to the optimum.",
        f"Q-bar - P_AE is within {SLIGHT:.0%} of Q-bar",
        _shortfalls(found, cabs, ("mk-scarce", "mk-rich"), within(SLIGHT)),
        "One day leaves cells that were never left before, where a mechanism knows the day's histogram alone; location "
        "hiding, which sends people anywhere, meets them more often.",
    )
    yield Finding(
        "Section V, Experiment MK",
        "On cabs they do significantly better than on check-ins.",
        f"P_AE of cabs - P_AE of check-in users, rich training, is above {SLIGHT:.0%} of Q-bar",
        tuple(
            _apart(
                f"TaxiCab and {NAMES[dataset]}, {BASES[base]}",
                "mk-rich, cabs - check-ins",
                compared(found[Study("mk", "taxicab", base)]["mk-rich"], None),
                compared(found[Study("mk", dataset, base)]["mk-rich"], None),
                above(SLIGHT),
            )
            for dataset, base in _CHECKINS
        ),
    )
    yield Finding(
        "Section V, Experiment MK",
        "On cabs seven days of training are better than one.",
        "rich - scarce is above 0",
        _differences(found, cabs, [("mk-rich", "mk-scarce")], above(0)),
    )
    yield Finding(
        "Section V, Experiment MK",
        "They differ slightly: a single day holds most of the road restrictions.",
        f"rich and scarce differ {_SHORT}",
        _differences(found, cabs, [("mk-rich", "mk-scarce")], within(SLIGHT)),
    )
    yield Finding(
        "Section V, Experiment MK",
        "The exponential mechanism does better than location hiding on data that it was not made for.",
        "MK-Exp - MK-LH is above 0",
        tuple(
            _judged(
                f"{NAMES[exp.dataset]}, Exp and LH",
                f"mk-{training}, Exp - LH",
                compared(found[exp][f"mk-{training}"], found[lh][f"mk-{training}"]),
                above(0),
            )
            for exp, lh in _BASES_OF_MARKOV
            for training in ("scarce", "rich")
        ),
    )


def _of_learning(found: Found) -> Iterator[Finding]:
    """Section VII."""
    sporadic, markov, cabs = _STUDIES["sp"], _STUDIES["mk"], _STUDIES["cabs"]
    yield Finding(
        "Section VII, Experiment SP",
        "Mechanisms that estimate the profile always protect better than hardwired ones, when check-ins are sporadic.",
        "PEB - SP (rich training) is above 0, in both halves",
        _differences(found, sporadic, [("peb-first", "sp-rich"), ("peb-last", "sp-rich")], above(0)),
    )
    yield Finding(
        "Section VII, Experiment SP",
        "They get better with the number of queries.",
        "the last half - the first half is above 0",
        _differences(found, sporadic, [("peb-last", "peb-first")], above(0)),
    )
    beside_markov = [("peb-first", "mk-rich"), ("peb-last", "mk-rich")]
    yield Finding(
        "Section VII, Experiment MK",
        "On check-ins, though they know no transitions, they are on a par with optimal Markov mechanisms or better.",
        f"PEB - MK (rich training) is above -{SLIGHT:.0%} of Q-bar, in both halves",
        _differences(found, markov, beside_markov, above(-SLIGHT)),
    )
    yield Finding(
        "Section VII, Experiment MK",
        "On check-ins they outperform optimal Markov mechanisms in many cases.",
        "PEB - MK (rich training) is above 0 in half of the rows or more",
        _differences(found, markov, beside_markov, above(0)),
        needed=len(markov),
    )
    yield Finding(
        "Section VII, Experiment MK",
        "On Gowalla they get worse with the number of queries: old reports weigh as much as new ones.",
        "the first half - the last half is above 0",
        _differences(
            found, [study for study in markov if study.dataset == "gowalla"], [("peb-first", "peb-last")], above(0)
        ),
    )
    yield Finding(
        "Section VII, Experiment MK",
        "On cabs they protect worse than Markov mechanisms that were trained for a day.",
        "MK (scarce training) - PEB is above 0, in both halves",
        _differences(found, cabs, [("mk-scarce", "peb-first"), ("mk-scarce", "peb-last")], above(0)),
    )
    yield Finding(
        "Section VII, Experiment MK",
        "On cabs more queries make no significant difference to them.",
        f"the halves differ {_SHORT}",
        _differences(found, cabs, [("peb-last", "peb-first")], within(SLIGHT)),
    )
    yield Finding(
        "Section VII",
        "In the last half their performance hardly depends on the profile they began with.",
        "not tested",
        (),
        "One beginning each is run here, as in the paper's figures; `lppms.peb.training` of a study tries another.",
    )
    yield Finding(
        "Section VII, other metrics",
        "They also do better by geo-indistinguishability and conditional entropy.",
        "not tested",
        (),
        "The paper gives no figures for it, and neither is a metric of this simulator yet.",
    )


def _of_other_cabs(found: Found) -> Iterator[Finding]:
    """Appendix C."""
    cabs = _STUDIES["cabs"]
    own_and_other = [("mk-scarce", "mk-other-scarce"), ("mk-rich", "mk-other-rich")]
    yield Finding(
        "Appendix C",
        "Trained on days of another cab, Markov mechanisms protect worse than on their own.",
        "own days - another cab's, scarce and rich, is above 0",
        _differences(found, cabs, own_and_other, above(0)),
    )
    yield Finding(
        "Appendix C",
        "They differ slightly: roads, not personal habits, are what links a cab's locations.",
        f"own days and another cab's differ {_SHORT}",
        _differences(found, cabs, own_and_other, within(SLIGHT)),
    )


_CHECKINS = [(dataset, base) for dataset in ("brightkite", "gowalla") for base in ("exp", "lh")]
_STUDIES = {
    "sp": [Study("sp", *place) for place in _CHECKINS],
    "mk": [Study("mk", *place) for place in _CHECKINS],
    "cabs": [Study("mk", "taxicab", base) for base in ("exp", "lh")],
}
_BASES_OF_MARKOV = [
    (Study("mk", dataset, "exp"), Study("mk", dataset, "lh")) for dataset in ("brightkite", "gowalla", "taxicab")
]


def _place(study: Study) -> str:
    return f"{NAMES[study.dataset]}, {BASES[study.base]}"


def _judged(place: str, what: str, shares: FloatArray, judge: Judge) -> Measured:
    """Return the mean of users' figures with its interval, and what that says."""
    if shares.size < 2:
        mean = float(shares.mean()) if shares.size else float("nan")
        return Measured(place, what, mean, float("nan"), shares.size, "cannot be told")
    mean, half = float(shares.mean()), _half(shares.std(ddof=1) / np.sqrt(shares.size), shares.size - 1)
    return Measured(place, what, mean, half, shares.size, judge(mean - half, mean + half))


def _apart(place: str, what: str, ones: FloatArray, others: FloatArray, judge: Judge) -> Measured:
    """Return by how much the mean of some users lies above that of other users, with Welch's interval."""
    if min(ones.size, others.size) < 2:
        return Measured(place, what, float("nan"), float("nan"), ones.size + others.size, "cannot be told")
    parts = np.array([ones.var(ddof=1) / ones.size, others.var(ddof=1) / others.size])
    sizes = np.array([ones.size, others.size])
    freedom = parts.sum() ** 2 / (parts**2 / (sizes - 1)).sum() if parts.sum() else float(sizes.sum() - 2)
    mean, half = float(ones.mean() - others.mean()), _half(np.sqrt(parts.sum()), freedom)
    return Measured(place, what, mean, half, int(sizes.sum()), judge(mean - half, mean + half))


def _half(error: float, freedom: float) -> float:
    """Return half of Student's 95 % interval."""
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2) * error)


def _lowest(study: Study, series: str, curves: Curves) -> Measured:
    """Return the figure of the user with the least privacy."""
    shares = compared(curves, None)
    if not shares.size:
        return Measured(
            _place(study), f"least protected user, {series}", float("nan"), float("nan"), 0, "cannot be told"
        )
    verdict: Verdict = "holds" if shares.min() < LOW else "does not hold"
    return Measured(_place(study), f"least protected user, {series}", float(shares.min()), float("nan"), 1, verdict)


def markdown(found: Sequence[Finding], *, synthetic: set[str], quick: bool) -> str:
    """Return the page of claims."""
    words: dict[Verdict, str] = {"holds": "hold", "does not hold": "do not hold", "cannot be told": "cannot be told"}
    counts = ", ".join(f"{sum(one.verdict == verdict for one in found)} {word}" for verdict, word in words.items())
    lines = ["# The paper's claims, and what these runs say", "", f"{len(found)} claims: {counts}.", ""]
    if synthetic:
        lines += [
            f"**Synthetic people stand in for {', '.join(sorted(synthetic))}: this says nothing of the paper.**",
            "",
        ]
    if quick:
        lines += ["**A quick run of one or two replications: figures are rough.**", ""]
    lines += [
        "A figure is a mean over users: of the difference of two P_AE as a share of the quality loss Q-bar, averaged",
        f"over the losses from {_FROM_KM} to {AT_KM[-1]:g} km that both curves of a user reach; ± half of the 95 %",
        "interval (Student's t over users, each of whom is a mean over replications). A row holds if its interval lies",
        "where it should, does not if it lies wholly elsewhere, and else cannot be told; a claim holds if all rows do,",
        "unless it says how many have to.",
        "",
        "Which users the paper tested is not known, and our sets of other people are larger than its (docs/paper.md):",
        "figures may differ for that reason alone. Five check-in users and ten cabs leave wide intervals.",
        "",
    ]
    for number, one in enumerate(found, start=1):
        lines += [f"## {number}. {one.claim}", "", f"{one.section}. **{one.verdict.capitalize()}**."]
        lines += [f"Taken to hold if {one.test}." if one.measured else "Not tested."]
        lines += [one.remark] if one.remark and one.verdict != "holds" else []
        if one.measured:
            lines += ["", "| panel | figure | measured | users | verdict |", "|---|---|---|---|---|"]
            lines += [f"| {m.panel} | {m.what} | {m} | {m.users} | {m.verdict} |" for m in one.measured]
        lines.append("")
    return "\n".join(lines)
