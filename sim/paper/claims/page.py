"""The page of claims, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from sim.paper.claims.measures import FROM_KM
from sim.paper.claims.verdicts import Finding, Verdict
from sim.paper.panels import AT_KM


def markdown(findings: Sequence[Finding], *, synthetic: set[str], quick: bool) -> str:
    """Return the page of claims."""
    words: dict[Verdict, str] = {"holds": "hold", "does not hold": "do not hold", "cannot be told": "cannot be told"}
    counts = ", ".join(f"{sum(one.verdict == verdict for one in findings)} {word}" for verdict, word in words.items())
    lines = ["# The paper's claims, and what these runs say", "", f"{len(findings)} claims: {counts}.", ""]
    if synthetic:
        lines += [
            f"**Synthetic people stand in for {', '.join(sorted(synthetic))}: this says nothing of the paper.**",
            "",
        ]
    if quick:
        lines += ["**A quick run of one or two replications: figures are rough.**", ""]
    lines += [
        "A figure is a mean over users: of the difference of two P_AE as a share of the quality loss Q-bar, averaged",
        f"over the losses from {FROM_KM} to {AT_KM[-1]:g} km that both curves of a user reach; ± half of the 95 %",
        "interval (Student's t over users, each of whom is a mean over replications). A row holds if its interval lies",
        "where it should, does not if it lies wholly elsewhere, and else cannot be told; a claim holds if all rows do,",
        "unless it says how many have to.",
        "",
        "Which users the paper tested is not known, and our sets of other people are larger than its (docs/paper.md):",
        "figures may differ for that reason alone. Five check-in users and ten cabs leave wide intervals.",
        "",
    ]
    for number, one in enumerate(findings, start=1):
        lines += [f"## {number}. {one.claim}", "", f"{one.section}. **{one.verdict.capitalize()}**."]
        lines += [f"Taken to hold if {one.test}." if one.measured else "Not tested."]
        lines += [one.remark] if one.remark and one.verdict != "holds" else []
        if one.measured:
            lines += ["", "| panel | figure | measured | users | verdict |", "|---|---|---|---|---|"]
            lines += [f"| {m.panel} | {m.what} | {m} | {m.users} | {m.verdict} |" for m in one.measured]
        lines.append("")
    return "\n".join(lines)
