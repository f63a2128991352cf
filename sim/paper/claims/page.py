"""The page of claims in Markdown, `claims.md`."""

from __future__ import annotations

from collections.abc import Sequence

from sim.paper.claims.measures import FROM_KM
from sim.paper.claims.verdicts import Finding, Verdict
from sim.paper.panels import AT_KM


def markdown(findings: Sequence[Finding], *, synthetic: set[str], quick: bool) -> str:
    """Return the page of claims."""
    plurals: dict[Verdict, str] = {"holds": "hold", "does not hold": "do not hold", "undecided": "are undecided"}
    counts = ", ".join(
        f"{sum(one.verdict == verdict for one in findings)} {plural}" for verdict, plural in plurals.items()
    )
    lines = ["# Claims of the paper and verdicts of this reproduction", "", f"{len(findings)} claims: {counts}.", ""]
    if synthetic:
        lines += [
            f"**Synthetic populations replace {', '.join(sorted(synthetic))}: the verdicts do not concern the paper.**",
            "",
        ]
    if quick:
        lines += ["**Quick run with one or two replications: the values are imprecise.**", ""]
    lines += [
        "Each value is a mean over users of the difference of two P_AE relative to the quality loss Q-bar, averaged",
        f"over the losses from {FROM_KM} to {AT_KM[-1]:g} km that both curves of a user reach, ± half of the 95 %",
        "confidence interval (Student's t over users; the value of a user is a mean over replications). A row holds if",
        "its confidence interval satisfies the condition, does not hold if the whole interval violates it, and is",
        "undecided otherwise. A claim holds if all of its rows hold, unless the condition states how many must.",
        "",
        "The paper does not identify its test users, and the sets of other users are larger here than in the paper:",
        "values may differ for that reason alone. Five check-in users and ten cabs give wide intervals.",
        "",
    ]
    for number, one in enumerate(findings, start=1):
        lines += [f"## {number}. {one.claim}", "", f"{one.section}. **{one.verdict.capitalize()}**."]
        lines += [f"Condition: {one.test}." if one.measured else "Not tested."]
        lines += [one.remark] if one.remark and one.verdict != "holds" else []
        if one.measured:
            lines += ["", "| panel | quantity | value | users | verdict |", "|---|---|---|---|---|"]
            lines += [f"| {m.panel} | {m.quantity} | {m} | {m.users} | {m.verdict} |" for m in one.measured]
        lines.append("")
    return "\n".join(lines)
