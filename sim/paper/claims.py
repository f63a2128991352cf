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

from sim.analysis import curve_of_user, half_width, user_points
from sim.interfaces import FloatArray
from sim.paper.panels import AT_KM, BASES, NAMES
from sim.paper.studies import Study

Verdict = Literal["holds", "does not hold", "cannot be told"]
Curves = dict[str, tuple[FloatArray, FloatArray]]
"""Of each user the losses, sorted, and the adversary's errors at them."""

SLIGHT = 0.10
"""What is called slight, similar, close or on a par: within a tenth of the quality loss."""

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
    somewhere: bool = False
    """It speaks of some panel, not of all."""

    @property
    def verdict(self) -> Verdict:
        """It holds if it holds in every panel, and does not if it fails in one."""
        verdicts = {row.verdict for row in self.measured}
        if self.somewhere and "holds" in verdicts:
            return "holds"
        if "does not hold" in verdicts:
            return "does not hold"
        return "holds" if verdicts == {"holds"} else "cannot be told"


def above(limit: float) -> Callable[[float, float], Verdict]:
    """Return the judge of a figure that is to lie above a limit."""
    return lambda low, high: "holds" if low > limit else "does not hold" if high < limit else "cannot be told"


def within(limit: float) -> Callable[[float, float], Verdict]:
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
    return list(_findings({study: curves_of(table) for study, table in users.items()}))


def _findings(found: Mapping[Study, dict[str, Curves]]) -> Iterator[Finding]:
    def in_panels(
        studies: Sequence[Study], pairs: Sequence[tuple[str, str | None]], judge: Callable[[float, float], Verdict]
    ) -> tuple[Measured, ...]:
        return tuple(
            _judged(study, _words(one, other), compared(found[study][one], found[study].get(other or "")), judge)
            for study in studies
            for one, other in pairs
        )

    sporadic, markov, cabs = _STUDIES["sp"], _STUDIES["mk"], _STUDIES["cabs"]
    short = f"by less than {SLIGHT:.0%} of Q-bar"

    def below_theory(studies: Sequence[Study], series: Sequence[str]) -> tuple[Measured, ...]:
        return tuple(
            _judged(study, f"Q-bar - {name}", 1 - compared(found[study][name], None), above(0))
            for study in studies
            for name in series
        )

    yield Finding(
        "Section V, Experiment SP",
        "Mechanisms that are optimal for other people's data give test users less than the theoretical P_AE = Q-bar.",
        "Q-bar - P_AE is above 0",
        below_theory(sporadic, ("sp-scarce", "sp-rich")),
    )
    yield Finding(
        "Section V, Experiment SP",
        "Rich training protects better on average than scarce training.",
        "rich - scarce is above 0",
        in_panels(sporadic, [("sp-rich", "sp-scarce")], above(0)),
        "Ours is another choice of users, and a rich set that is larger than the paper's (see docs/data.md).",
    )
    yield Finding(
        "Section V, Experiment SP",
        "The improvement by rich training is slight: neither set knows these users.",
        f"rich and scarce differ {short}",
        in_panels(sporadic, [("sp-rich", "sp-scarce")], within(SLIGHT)),
    )
    yield Finding(
        "Section V, Experiment SP",
        "Some users, unlike those of the training data, get very little privacy.",
        f"somewhere the least protected user has P_AE below {LOW:.0%} of Q-bar (no interval: it is one user)",
        tuple(_lowest(study, name, found[study][name]) for study in sporadic for name in ("sp-scarce", "sp-rich")),
        somewhere=True,
    )
    yield Finding(
        "Section V, Experiment MK",
        "On check-ins the optimal Markov mechanisms, too, give less than P_AE = Q-bar.",
        "Q-bar - P_AE is above 0",
        below_theory(markov, ("mk-scarce", "mk-rich")),
    )
    yield Finding(
        "Section V, Experiment MK",
        "Their results on check-ins are very similar to those of Experiment SP.",
        f"MK of Experiment MK and SP of Experiment SP, rich training, differ {short}",
        tuple(
            _judged(mk, "mk-rich - sp-rich", compared(found[mk]["mk-rich"], found[sp]["sp-rich"]), within(SLIGHT))
            for mk, sp in zip(markov, sporadic, strict=True)
        ),
    )
    yield Finding(
        "Section V, Experiment MK",
        "On cabs, whose roads are in the training data, Markov mechanisms come close to the optimum.",
        f"Q-bar - P_AE is below {2 * SLIGHT:.0%} of Q-bar",
        tuple(
            _judged(study, f"{name} - Q-bar", compared(found[study][name], None) - 1, above(-2 * SLIGHT))
            for study in cabs
            for name in ("mk-scarce", "mk-rich")
        ),
    )
    yield Finding(
        "Section V, Experiment MK",
        "On cabs seven days of training are better than one.",
        "rich - scarce is above 0",
        in_panels(cabs, [("mk-rich", "mk-scarce")], above(0)),
    )
    yield Finding(
        "Section V, Experiment MK",
        "That improvement is slight: a single day holds most of the road restrictions.",
        f"rich and scarce differ {short}",
        in_panels(cabs, [("mk-rich", "mk-scarce")], within(SLIGHT)),
    )
    yield Finding(
        "Section V, Experiment MK",
        "The exponential mechanism does better than location hiding on data that it was not made for.",
        "MK-Exp - MK-LH, rich training, is above 0",
        tuple(
            _judged(exp, "Exp - LH, mk-rich", compared(found[exp]["mk-rich"], found[lh]["mk-rich"]), above(0))
            for exp, lh in _BASES_OF_MARKOV
        ),
    )
    yield Finding(
        "Section VII, Experiment SP",
        "Mechanisms that estimate the profile always protect better than hardwired ones, when check-ins are sporadic.",
        "PEB - SP (rich training) is above 0, in both halves",
        in_panels(sporadic, [("peb-first", "sp-rich"), ("peb-last", "sp-rich")], above(0)),
    )
    yield Finding(
        "Section VII, Experiment SP",
        "They get better with the number of queries.",
        "the last half - the first half is above 0",
        in_panels(sporadic, [("peb-last", "peb-first")], above(0)),
    )
    yield Finding(
        "Section VII, Experiment MK",
        "On check-ins, though they know no transitions, they are on a par with optimal Markov mechanisms or better.",
        f"PEB - MK (rich training) is above -{SLIGHT:.0%} of Q-bar, in both halves",
        in_panels(markov, [("peb-first", "mk-rich"), ("peb-last", "mk-rich")], above(-SLIGHT)),
    )
    yield Finding(
        "Section VII, Experiment MK",
        "On Gowalla they get worse with the number of queries: old reports weigh as much as new ones.",
        "the first half - the last half is above 0",
        in_panels([study for study in markov if study.dataset == "gowalla"], [("peb-first", "peb-last")], above(0)),
        "Which users are tested is unknown; whether a behaviour changes midway is a matter of five people.",
    )
    yield Finding(
        "Section VII, Experiment MK",
        "On cabs they protect worse than Markov mechanisms that were trained for a day.",
        "MK (scarce training) - PEB is above 0, in both halves",
        in_panels(cabs, [("mk-scarce", "peb-first"), ("mk-scarce", "peb-last")], above(0)),
    )
    yield Finding(
        "Section VII, Experiment MK",
        "On cabs more queries make no significant difference to them.",
        f"the halves differ {short}",
        in_panels(cabs, [("peb-last", "peb-first")], within(SLIGHT)),
    )
    yield Finding(
        "Section VII",
        "In the last half their performance hardly depends on the profile they began with.",
        "not tested",
        (),
        "One beginning each is run here, as in the paper's figures; `lppms.*.training` of a study tries another.",
    )
    yield Finding(
        "Section VII, other metrics",
        "They also do better by geo-indistinguishability and conditional entropy.",
        "not tested",
        (),
        "The paper gives no figures for it, and neither is a metric of this simulator yet.",
    )
    yield Finding(
        "Appendix C",
        "Trained on days of another cab, Markov mechanisms protect worse than on their own.",
        "own days - another cab's, scarce and rich, is above 0",
        in_panels(cabs, [("mk-scarce", "mk-other-scarce"), ("mk-rich", "mk-other-rich")], above(0)),
    )
    yield Finding(
        "Appendix C",
        "But only slightly: roads, not personal habits, are what links a cab's locations.",
        f"own days and another cab's differ {short}",
        in_panels(cabs, [("mk-scarce", "mk-other-scarce"), ("mk-rich", "mk-other-rich")], within(SLIGHT)),
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


def _words(one: str, other: str | None) -> str:
    return one if other is None else f"{one} - {other}"


def _place(study: Study) -> str:
    return f"{NAMES[study.dataset]}, {BASES[study.base]}"


def _judged(study: Study, what: str, shares: FloatArray, judge: Callable[[float, float], Verdict]) -> Measured:
    """Return the mean of users' figures with its interval, and what that says."""
    if not shares.size:
        return Measured(_place(study), what, float("nan"), float("nan"), 0, "cannot be told")
    values = pd.Series(shares)
    mean = float(values.mean())
    half = float(half_width(pd.Series([values.std(ddof=1)]), pd.Series([values.size])).iloc[0])
    verdict: Verdict = "cannot be told" if np.isnan(half) else judge(mean - half, mean + half)
    return Measured(_place(study), what, mean, half, values.size, verdict)


def _lowest(study: Study, series: str, curves: Curves) -> Measured:
    """Return the figure of the user with the least privacy."""
    least = float(compared(curves, None).min())
    verdict: Verdict = "holds" if least < LOW else "does not hold"
    return Measured(_place(study), f"least protected user, {series}", least, float("nan"), 1, verdict)


def markdown(found: Sequence[Finding], *, synthetic: set[str], quick: bool) -> str:
    """Return the page of claims."""
    verdicts: tuple[Verdict, ...] = ("holds", "does not hold", "cannot be told")
    counts = ", ".join(f"{sum(one.verdict == verdict for one in found)} {verdict}" for verdict in verdicts)
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
        "interval (Student's t over users, each of whom is a mean over replications). A claim holds if its interval",
        "lies where it should in every panel, does not if one lies wholly elsewhere, and else cannot be told.",
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
