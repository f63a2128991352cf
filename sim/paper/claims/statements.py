"""The claims of the paper, in our words, each with the rows that test it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from sim.paper.claims.measures import (
    LOW,
    Measure,
    cabs_and_checkins,
    curves_of,
    differences,
    exponential_and_hiding,
    least_protected,
    markov_and_sporadic,
    shortfalls,
    untested,
)
from sim.paper.claims.verdicts import Finding, above, within
from sim.paper.studies import Study

SLIGHT = 0.10
"""Slight, similar, close or on a par: within a tenth of the quality loss. Significant: more."""

_SHORT = f"by less than {SLIGHT:.0%} of Q-bar"
_CHECKINS = [(dataset, base) for dataset in ("brightkite", "gowalla") for base in ("exp", "lh")]
_SPORADIC = [Study("sp", *place) for place in _CHECKINS]
_MARKOV = [Study("mk", *place) for place in _CHECKINS]
_CABS = [Study("mk", "taxicab", base) for base in ("exp", "lh")]
_BASES_OF_MARKOV = [
    (Study("mk", dataset, "exp"), Study("mk", dataset, "lh")) for dataset in ("brightkite", "gowalla", "taxicab")
]
_PEB_AND_MARKOV = [("peb-first", "mk-rich"), ("peb-last", "mk-rich")]
_OWN_AND_OTHER = [("mk-scarce", "mk-other-scarce"), ("mk-rich", "mk-other-rich")]


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of the paper and the test of it; the fields are those of `Finding`."""

    section: str
    claim: str
    test: str
    measure: Measure
    remark: str = ""
    needed: int | None = None


def findings(users: Mapping[Study, pd.DataFrame]) -> list[Finding]:
    """Test every claim; takes a table of `panels.series_of` for each study."""
    curves = {study: curves_of(table) for study, table in users.items()}
    return [
        Finding(claim.section, claim.claim, claim.test, claim.measure(curves), claim.remark, claim.needed)
        for claim in (*HARDWIRED, *LEARNING, *OTHER_CABS)
    ]


HARDWIRED: tuple[Claim, ...] = (
    Claim(
        "Section V",
        "On the data that it was trained on, an optimal mechanism has P_AE = Q-bar.",
        "not tested",
        untested,
        "No panel shows it; tests/simulation/test_enumeration.py finds it to 1e-9 by enumeration of all reports.",
    ),
    Claim(
        "Section V, Experiment SP",
        "Mechanisms that are optimal for other people's data give test users less than the theoretical P_AE = Q-bar.",
        "Q-bar - P_AE is above 0",
        shortfalls(_SPORADIC, ("sp-scarce", "sp-rich"), above(0)),
    ),
    Claim(
        "Section V, Experiment SP",
        "Rich training protects better on average than scarce training.",
        "rich - scarce is above 0",
        differences(_SPORADIC, [("sp-rich", "sp-scarce")], above(0)),
    ),
    Claim(
        "Section V, Experiment SP",
        "Rich and scarce training differ slightly: neither set knows these users.",
        f"rich and scarce differ {_SHORT}",
        differences(_SPORADIC, [("sp-rich", "sp-scarce")], within(SLIGHT)),
    ),
    Claim(
        "Section V, Experiment SP",
        "Some users, unlike those of the training data, get very little privacy.",
        f"in one row at least the least protected user has P_AE below {LOW:.0%} of Q-bar (one user, no interval)",
        least_protected(_SPORADIC, ("sp-scarce", "sp-rich")),
        needed=1,
    ),
    Claim(
        "Section V, Experiment MK",
        "On check-ins the optimal Markov mechanisms, too, give significantly less than P_AE = Q-bar.",
        f"Q-bar - P_AE is above {SLIGHT:.0%} of Q-bar",
        shortfalls(_MARKOV, ("mk-scarce", "mk-rich"), above(SLIGHT)),
    ),
    Claim(
        "Section V, Experiment MK",
        "Their results on check-ins are very similar to those of Experiment SP.",
        f"MK of Experiment MK and SP of Experiment SP differ {_SHORT}",
        markov_and_sporadic(list(zip(_MARKOV, _SPORADIC, strict=True)), ("scarce", "rich"), within(SLIGHT)),
    ),
    Claim(
        "Section V, Experiment MK",
        "On cabs, whose roads are in the training data, Markov mechanisms come close to the optimum.",
        f"Q-bar - P_AE is within {SLIGHT:.0%} of Q-bar",
        shortfalls(_CABS, ("mk-scarce", "mk-rich"), within(SLIGHT)),
        "One day leaves cells that were never left before, where a mechanism knows the day's histogram alone; location "
        "hiding, which sends people anywhere, meets them more often.",
    ),
    Claim(
        "Section V, Experiment MK",
        "On cabs they do significantly better than on check-ins.",
        f"P_AE of cabs - P_AE of check-in users, rich training, is above {SLIGHT:.0%} of Q-bar",
        cabs_and_checkins(_CHECKINS, above(SLIGHT)),
    ),
    Claim(
        "Section V, Experiment MK",
        "On cabs seven days of training are better than one.",
        "rich - scarce is above 0",
        differences(_CABS, [("mk-rich", "mk-scarce")], above(0)),
    ),
    Claim(
        "Section V, Experiment MK",
        "They differ slightly: a single day holds most of the road restrictions.",
        f"rich and scarce differ {_SHORT}",
        differences(_CABS, [("mk-rich", "mk-scarce")], within(SLIGHT)),
    ),
    Claim(
        "Section V, Experiment MK",
        "The exponential mechanism does better than location hiding on data that it was not made for.",
        "MK-Exp - MK-LH is above 0",
        exponential_and_hiding(_BASES_OF_MARKOV, ("scarce", "rich"), above(0)),
    ),
)
"""Section V: mechanisms that are designed for training data."""

LEARNING: tuple[Claim, ...] = (
    Claim(
        "Section VII, Experiment SP",
        "Mechanisms that estimate the profile always protect better than hardwired ones, when check-ins are sporadic.",
        "PEB - SP (rich training) is above 0, in both halves",
        differences(_SPORADIC, [("peb-first", "sp-rich"), ("peb-last", "sp-rich")], above(0)),
    ),
    Claim(
        "Section VII, Experiment SP",
        "They get better with the number of queries.",
        "the last half - the first half is above 0",
        differences(_SPORADIC, [("peb-last", "peb-first")], above(0)),
    ),
    Claim(
        "Section VII, Experiment MK",
        "On check-ins, though they know no transitions, they are on a par with optimal Markov mechanisms or better.",
        f"PEB - MK (rich training) is above -{SLIGHT:.0%} of Q-bar, in both halves",
        differences(_MARKOV, _PEB_AND_MARKOV, above(-SLIGHT)),
    ),
    Claim(
        "Section VII, Experiment MK",
        "On check-ins they outperform optimal Markov mechanisms in many cases.",
        "PEB - MK (rich training) is above 0 in half of the rows or more",
        differences(_MARKOV, _PEB_AND_MARKOV, above(0)),
        needed=len(_MARKOV),
    ),
    Claim(
        "Section VII, Experiment MK",
        "On Gowalla they get worse with the number of queries: old reports weigh as much as new ones.",
        "the first half - the last half is above 0",
        differences([study for study in _MARKOV if study.dataset == "gowalla"], [("peb-first", "peb-last")], above(0)),
    ),
    Claim(
        "Section VII, Experiment MK",
        "On cabs they protect worse than Markov mechanisms that were trained for a day.",
        "MK (scarce training) - PEB is above 0, in both halves",
        differences(_CABS, [("mk-scarce", "peb-first"), ("mk-scarce", "peb-last")], above(0)),
    ),
    Claim(
        "Section VII, Experiment MK",
        "On cabs more queries make no significant difference to them.",
        f"the halves differ {_SHORT}",
        differences(_CABS, [("peb-last", "peb-first")], within(SLIGHT)),
    ),
    Claim(
        "Section VII",
        "In the last half their performance hardly depends on the profile they began with.",
        "not tested",
        untested,
        "One beginning each is run here, as in the paper's figures; `lppms.peb.training` of a study tries another.",
    ),
    Claim(
        "Section VII, other metrics",
        "They also do better by geo-indistinguishability and conditional entropy.",
        "not tested",
        untested,
        "The paper gives no figures for it, and neither is a metric of this simulator yet.",
    ),
)
"""Section VII: mechanisms that estimate the profile."""

OTHER_CABS: tuple[Claim, ...] = (
    Claim(
        "Appendix C",
        "Trained on days of another cab, Markov mechanisms protect worse than on their own.",
        "own days - another cab's, scarce and rich, is above 0",
        differences(_CABS, _OWN_AND_OTHER, above(0)),
    ),
    Claim(
        "Appendix C",
        "They differ slightly: roads, not personal habits, are what links a cab's locations.",
        f"own days and another cab's differ {_SHORT}",
        differences(_CABS, _OWN_AND_OTHER, within(SLIGHT)),
    ),
)
"""Appendix C: training on another cab."""
