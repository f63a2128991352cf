"""The claims of the paper, paraphrased, each with the measurements that test it."""

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
"""Limit of "slight", "similar", "close" and "on a par" as a share of the quality loss; "significant" is more."""

_SHORT = f"by less than {SLIGHT:.0%} of Q-bar"
_CHECKINS = [(dataset, base) for dataset in ("brightkite", "gowalla") for base in ("exp", "lh")]
_SPORADIC = [Study("sp", *pair) for pair in _CHECKINS]
_MARKOV = [Study("mk", *pair) for pair in _CHECKINS]
_CABS = [Study("mk", "taxicab", base) for base in ("exp", "lh")]
_BASES_OF_MARKOV = [
    (Study("mk", dataset, "exp"), Study("mk", dataset, "lh")) for dataset in ("brightkite", "gowalla", "taxicab")
]
_PEB_AND_MARKOV = [("peb-first", "mk-rich"), ("peb-last", "mk-rich")]
_OWN_AND_OTHER = [("mk-scarce", "mk-other-scarce"), ("mk-rich", "mk-other-rich")]


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of the paper and its test; the other fields are those of `Finding`."""

    key: str
    section: str
    claim: str
    test: str
    measure: Measure
    remark: str = ""
    needed: int | None = None


def findings(users: Mapping[Study, pd.DataFrame]) -> list[Finding]:
    """Test all claims, given a table of `panels.series_of` for each study."""
    curves = {study: curves_of(table) for study, table in users.items()}
    return [
        Finding(claim.key, claim.section, claim.claim, claim.test, claim.measure(curves), claim.remark, claim.needed)
        for claim in (*HARDWIRED, *LEARNING, *OTHER_CABS)
    ]


HARDWIRED: tuple[Claim, ...] = (
    Claim(
        "optimal-on-training",
        "Section V",
        "On the data that it was trained on, an optimal mechanism has P_AE = Q-bar.",
        "not tested",
        untested,
        "No panel shows it; tests/simulation/test_enumeration.py verifies it to 1e-9 by enumeration of all reports.",
    ),
    Claim(
        "hardwired-below-theory",
        "Section V, Experiment SP",
        "Mechanisms that are optimal for other people's data give test users less privacy than P_AE = Q-bar.",
        "Q-bar - P_AE is above 0",
        shortfalls(_SPORADIC, ("sp-scarce", "sp-rich"), above(0)),
    ),
    Claim(
        "rich-above-scarce",
        "Section V, Experiment SP",
        "Rich training protects better on average than scarce training.",
        "rich - scarce is above 0",
        differences(_SPORADIC, [("sp-rich", "sp-scarce")], above(0)),
    ),
    Claim(
        "rich-near-scarce",
        "Section V, Experiment SP",
        "Rich and scarce training differ slightly: neither set contains these users.",
        f"rich and scarce differ {_SHORT}",
        differences(_SPORADIC, [("sp-rich", "sp-scarce")], within(SLIGHT)),
    ),
    Claim(
        "low-privacy-users",
        "Section V, Experiment SP",
        "Some users, who differ from the training data, get very little privacy.",
        f"in at least one row, the least protected user has P_AE below {LOW:.0%} of Q-bar (one user, no interval)",
        least_protected(_SPORADIC, ("sp-scarce", "sp-rich")),
        needed=1,
    ),
    Claim(
        "markov-below-theory",
        "Section V, Experiment MK",
        "On check-ins, optimal Markov mechanisms also give significantly less privacy than P_AE = Q-bar.",
        f"Q-bar - P_AE is above {SLIGHT:.0%} of Q-bar",
        shortfalls(_MARKOV, ("mk-scarce", "mk-rich"), above(SLIGHT)),
    ),
    Claim(
        "markov-like-sporadic",
        "Section V, Experiment MK",
        "On check-ins, the results of Experiment MK are very similar to those of Experiment SP.",
        f"MK of Experiment MK and SP of Experiment SP differ {_SHORT}",
        markov_and_sporadic(list(zip(_MARKOV, _SPORADIC, strict=True)), ("scarce", "rich"), within(SLIGHT)),
    ),
    Claim(
        "cabs-near-theory",
        "Section V, Experiment MK",
        "On cabs, whose roads are in the training data, Markov mechanisms are close to the optimum.",
        f"Q-bar - P_AE is within {SLIGHT:.0%} of Q-bar",
        shortfalls(_CABS, ("mk-scarce", "mk-rich"), within(SLIGHT)),
        "After one day of training, some cells have no observed transitions, and a mechanism falls back to the "
        "histogram of the day; location hiding, which reports arbitrary cells, is affected more often.",
    ),
    Claim(
        "cabs-above-checkins",
        "Section V, Experiment MK",
        "Markov mechanisms protect significantly better on cabs than on check-ins.",
        f"P_AE of cabs - P_AE of check-in users, rich training, is above {SLIGHT:.0%} of Q-bar",
        cabs_and_checkins(_CHECKINS, above(SLIGHT)),
    ),
    Claim(
        "cabs-rich-above-scarce",
        "Section V, Experiment MK",
        "On cabs, seven days of training protect better than one.",
        "rich - scarce is above 0",
        differences(_CABS, [("mk-rich", "mk-scarce")], above(0)),
    ),
    Claim(
        "cabs-rich-near-scarce",
        "Section V, Experiment MK",
        "On cabs, seven days and one differ slightly: a single day contains most of the road restrictions.",
        f"rich and scarce differ {_SHORT}",
        differences(_CABS, [("mk-rich", "mk-scarce")], within(SLIGHT)),
    ),
    Claim(
        "exponential-above-hiding",
        "Section V, Experiment MK",
        "The exponential mechanism protects better than location hiding on data that it was not designed for.",
        "MK-Exp - MK-LH is above 0",
        exponential_and_hiding(_BASES_OF_MARKOV, ("scarce", "rich"), above(0)),
    ),
)
"""Claims of Section V: mechanisms designed for training data."""

LEARNING: tuple[Claim, ...] = (
    Claim(
        "peb-above-sporadic",
        "Section VII, Experiment SP",
        "With sporadic check-ins, mechanisms that estimate the profile always protect better than hardwired ones.",
        "PEB - SP (rich training) is above 0, in both halves",
        differences(_SPORADIC, [("peb-first", "sp-rich"), ("peb-last", "sp-rich")], above(0)),
    ),
    Claim(
        "peb-improves",
        "Section VII, Experiment SP",
        "With sporadic check-ins, mechanisms that estimate the profile improve with the number of queries.",
        "the last half - the first half is above 0",
        differences(_SPORADIC, [("peb-last", "peb-first")], above(0)),
    ),
    Claim(
        "peb-near-markov",
        "Section VII, Experiment MK",
        "On check-ins, they are on a par with optimal Markov mechanisms or better, although they ignore transitions.",
        f"PEB - MK (rich training) is above -{SLIGHT:.0%} of Q-bar, in both halves",
        differences(_MARKOV, _PEB_AND_MARKOV, above(-SLIGHT)),
    ),
    Claim(
        "peb-above-markov",
        "Section VII, Experiment MK",
        "On check-ins, they outperform optimal Markov mechanisms in many cases.",
        "PEB - MK (rich training) is above 0 in half of the rows or more",
        differences(_MARKOV, _PEB_AND_MARKOV, above(0)),
        needed=len(_MARKOV),
    ),
    Claim(
        "gowalla-peb-declines",
        "Section VII, Experiment MK",
        "On Gowalla, they decline with the number of queries: old reports weigh as much as new ones.",
        "the first half - the last half is above 0",
        differences([study for study in _MARKOV if study.dataset == "gowalla"], [("peb-first", "peb-last")], above(0)),
    ),
    Claim(
        "cabs-peb-below-markov",
        "Section VII, Experiment MK",
        "On cabs, they protect worse than Markov mechanisms that were trained on one day.",
        "MK (scarce training) - PEB is above 0, in both halves",
        differences(_CABS, [("mk-scarce", "peb-first"), ("mk-scarce", "peb-last")], above(0)),
    ),
    Claim(
        "cabs-peb-constant",
        "Section VII, Experiment MK",
        "On cabs, the number of queries makes no significant difference to them.",
        f"the halves differ {_SHORT}",
        differences(_CABS, [("peb-last", "peb-first")], within(SLIGHT)),
    ),
    Claim(
        "peb-initial-profile",
        "Section VII",
        "In the last half, their performance hardly depends on the initial profile.",
        "not tested",
        untested,
        "Each study runs one initial profile, as in the paper's figures; `lppms.peb.training` sets another one.",
    ),
    Claim(
        "peb-other-metrics",
        "Section VII, other metrics",
        "They also perform better by geo-indistinguishability and conditional entropy.",
        "not tested",
        untested,
        "The paper gives no numbers to compare with.",
    ),
)
"""Claims of Section VII: mechanisms that estimate the profile."""

OTHER_CABS: tuple[Claim, ...] = (
    Claim(
        "other-cab-below-own",
        "Appendix C",
        "Markov mechanisms trained on another cab protect worse than those trained on the same cab.",
        "own days - days of another cab, scarce and rich, is above 0",
        differences(_CABS, _OWN_AND_OTHER, above(0)),
    ),
    Claim(
        "other-cab-near-own",
        "Appendix C",
        "Training on another and on the same cab differ slightly: roads, not personal habits, link a cab's locations.",
        f"own days and days of another cab differ {_SHORT}",
        differences(_CABS, _OWN_AND_OTHER, within(SLIGHT)),
    ),
)
"""Claims of Appendix C: training on another cab."""
