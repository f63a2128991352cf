"""Print all tables of docs/beyond.md from runs of scenarios/beyond and behaviour_shift.yaml, and draw its figure.

    python tools/beyond.py RUNS -o docs/images/beyond.png
    python tools/beyond.py RUNS --page docs/beyond.md

RUNS is a folder with a run directory for each scenario, named after it, as `lppm-sim run scenarios/beyond/NAME.yaml -o
RUNS/NAME` makes it; `relocation-NAME-all` is that of `relocation-NAME` with `--set users.mobility.select.split=null`.
Runs that are not finished are omitted. Each table has a name. `--page` replaces the tables between `% table: NAME` and
`% end` of the page and fails if one of them cannot be computed.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import sim
from sim.analysis.moments import ColumnMoments
from sim.analysis.statistics import FEWEST_USERS, SIGNIFICANCE, holm
from sim.interfaces import FloatArray

LOSSES_KM = {"sp-gowalla": (1, 2, 3), "sp-brightkite": (1, 2), "mk-gowalla": (1, 2, 3), "mk-brightkite": (1, 2)}
LOSSES_KM |= {"mk-taxicab": (1, 2, 3)}
"""Losses at which at least five users are compared."""
REFERENCE = {"mk-taxicab": "MK both-Exp"}
CEILINGS = {"ideal": "ideal-Mix", "full information": "full information-Mix"}
"""Ceilings by the heading of the efficiency against them; the second one in runs that have it."""
BASELINES = dict.fromkeys(LOSSES_KM, ("PEB-Exp", "MK-Exp", "RPEB-Exp")) | {
    "mk-taxicab": ("PEB blank-Exp", "MK both-Exp", "RPEB blank-Exp")
}
RECOMMENDED = dict.fromkeys(LOSSES_KM, ("PEB-SPMK-AMix",)) | {
    "mk-taxicab": ("PEB-SPMK other cabs-AMix", "PEB-SPMK both-AMix")
}
TITLES = {"sp": "Experiment SP", "mk": "Experiment MK"}
PANELS_KM = (1, 2)
RELOCATIONS = {
    "relocation-gowalla": (1.0, "PEB-Exp"),
    "relocation-gowalla-all": (1.0, "PEB-Exp"),
    "relocation-brightkite": (0.5, "PEB-Exp"),
    "relocation-brightkite-all": (0.5, "PEB-Exp"),
    "behaviour_shift": (1.0, "PEB-LH"),
}
"""Quality loss before the move, in km, and reference mechanism of each run with a move."""
SIGNIFICANT = "†"
Lines = list[list[str]]


def main() -> None:
    """Print every table that can be computed, replace those of a page, and draw the figure if requested."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("-o", "--out", type=Path, help="figure")
    parser.add_argument("--page", type=Path, help="page whose tables are replaced")
    options = parser.parse_args()
    if options.page is not None:
        options.page.write_text(replaced(options.page.read_text(), partial(table_of, options.runs)))
    else:
        for name in NAMES:
            if _exists(options.runs, name):
                print(f"% table: {name}\n\n{table_of(options.runs, name)}\n\n% end\n")
    if options.out is not None:
        draw({name: compared(options.runs, name) for name in LOSSES_KM}, options.out)


NAMES = (*LOSSES_KM, "recommended", *RELOCATIONS)


def _exists(runs: Path, name: str) -> bool:
    needed = LOSSES_KM if name == "recommended" else [name]
    folders = [runs / one for one in needed]
    return all((one / "manifest.json").exists() and sim.Result.open(one).manifest.finished for one in folders)


def table_of(runs: Path, name: str) -> str:
    """Return a table as Markdown."""
    lines, note = leads(runs) if name == "recommended" else (_own_table(runs, name), "")
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + (f"\n\n{note}" if note else "")


def _own_table(runs: Path, name: str) -> Lines:
    if name in RELOCATIONS:
        return relocated(_opened(runs, name), *RELOCATIONS[name])
    return at_losses(compared(runs, name))


def _opened(runs: Path, name: str) -> sim.Result:
    result = sim.Result.open(runs / name)
    if not result.manifest.finished:
        raise SystemExit(f"{runs / name} is not finished: continue the run before its table is made")
    return result


def replaced(page: str, table: Callable[[str], str]) -> str:
    """Return a page with the content of each block `% table: NAME` ... `% end` replaced by that table.

    >>> replaced("% table: a\\n\\nold\\n\\n% end\\n", lambda name: f"| new {name} |")
    '% table: a\\n\\n| new a |\\n\\n% end\\n'
    """
    block = re.compile(r"(?m)^% table: (.+)\n(?s:.*?)^% end$")
    return block.sub(lambda match: f"% table: {match[1]}\n\n{table(match[1])}\n\n% end", page)


def compared(runs: Path, name: str) -> pd.DataFrame:
    """Return the comparison of a run at its losses, with the efficiency against each ceiling in the run."""
    result, losses_km = _opened(runs, name), list(LOSSES_KM[name])
    against = REFERENCE.get(name, "RPEB-Exp")
    known = set(result.summary()["lppm"])
    table = result.at_loss(losses_km, against=against)
    for heading, ceiling in CEILINGS.items():
        if ceiling in known:
            own = result.at_loss(losses_km, against=against, ceiling=ceiling)
            table[heading] = own["efficiency"].to_numpy()
    return table


def at_losses(table: pd.DataFrame) -> Lines:
    """Return P_AE, its difference to the reference, efficiencies, the error after smoothing and the entropy.

    Differences are tested together: the family has all of them in the table.
    """
    metrics = {"smoothed": "smoothed_error_km", "entropy": "entropy_bits"}
    metrics = {name: column for name, column in metrics.items() if column in table and table[column].notna().any()}
    shares = [heading for heading in CEILINGS if heading in table]
    titles = ["loss", "mechanism", "P_AE", "difference", *(f"of {heading}" for heading in shares), *metrics]
    lines = [titles, ["---"] * len(titles)]
    for loss_km, own in table.groupby("quality_loss_km", sort=False):
        start = f"{loss_km:g} km, {own['users'].max()} users"
        for row in own.to_dict("records"):
            mark = "*" if row["at_largest"] + row["at_smallest"] > 0 else ""
            line = [start, row["lppm"], f"{row['error_km']:.3f}{mark}", _difference(row, row["p_holm"])]
            line += [f"{row[heading]:.3f}" for heading in shares]
            line += [f"{row[column]:.{2 if name == 'entropy' else 3}f}" for name, column in metrics.items()]
            lines.append(line)
            start = ""
    return lines


def leads(runs: Path) -> tuple[Lines, str]:
    """Return the lead of the recommended mechanism over each baseline, paired by user, at each loss.

    Leads are tested together: the family has all leads over all baselines, losses and data sets. The second value is a
    sentence on the result.
    """
    rows = [row for name in LOSSES_KM for row in _leads(runs, name)]
    adjusted = holm(np.array([row["p_value"] for row in rows], float))
    cells = [_difference(row, value, sign=-1) for row, value in zip(rows, adjusted, strict=True)]
    lines = [["scenario", "mechanism", "km", "users", "minus PEB", "minus MK", "minus RPEB"], ["---"] * 7]
    for start in range(0, len(rows), 3):
        row = rows[start]
        lines.append([row["scenario"], row["own"], f"{row['km']}", f"{row['users']}", *cells[start : start + 3]])
    return lines, _counted(rows, adjusted)


def _counted(rows: list[dict[str, Any]], adjusted: FloatArray) -> str:
    """Return a sentence on the number of significant leads, and on the leads below zero without the correction."""
    signs = np.array([-np.sign(row["difference_km"]) for row in rows])
    above, below = (int(((adjusted < SIGNIFICANCE) & (signs == sign)).sum()) for sign in (1, -1))
    alone = ", ".join(map(_named, (row for row in rows if row["difference_km_low"] > 0)))
    return (
        f"Of {len(rows)} leads, {above} are significantly above zero and {below} below, after the correction. Without "
        f"it, these are below zero: {alone or 'none'}."
    )


def _named(row: Any) -> str:
    return f"{row['scenario']} at {row['km']} km, {row['own']} minus {row['lppm']}"


def _leads(runs: Path, name: str) -> Iterator[dict[str, Any]]:
    result = _opened(runs, name)
    for own in RECOMMENDED[name]:
        table = result.at_loss(list(LOSSES_KM[name]), against=own).set_index(["quality_loss_km", "lppm"])
        for loss_km in LOSSES_KM[name]:
            for baseline in BASELINES[name]:
                row: Any = table.loc[(loss_km, baseline)]
                yield dict(row) | {"scenario": name, "own": own, "km": loss_km, "lppm": baseline}


def _difference(row: Any, adjusted: float, *, sign: int = 1) -> str:
    if row["lppm"] == row["against"]:
        return ""
    half_km = (row["difference_km_high"] - row["difference_km_low"]) / 2
    mark = SIGNIFICANT if adjusted < SIGNIFICANCE else ""
    return f"{sign * row['difference_km']:+.3f} ± {half_km:.3f}{mark}"


def relocated(result: sim.Result, loss_km: float, against: str) -> Lines:
    """Return the adaptation to a move at an equal loss before it; † differs significantly from the reference (Holm)."""
    adapted = result.adaptation(at_km=loss_km)
    order = [lppm.name for lppm in result.manifest.scenario.lppms]
    summary = adapted.summary.set_index("lppm").loc[order]
    users = int(summary["users"].max())
    tests = _recovery_tests(adapted.users, against) if users >= FEWEST_USERS else {}
    titles = [f"{users} users, {loss_km:g} km before", "Q-bar before", "Q-bar after", "before", "lowest", "end"]
    titles += ["queries to recover: mean, median", "not recovered"]
    lines = [titles, ["---"] * len(titles)]
    for lppm, row in summary.iterrows():
        half = (row["queries_to_recover_high"] - row["queries_to_recover_low"]) / 2
        mark = SIGNIFICANT if tests.get(str(lppm), 1.0) < SIGNIFICANCE else ""
        outside = "*" if row["at_largest"] + row["at_smallest"] else ""
        efficiencies = [f"{row[f'efficiency_{name}']:.2f}" for name in ("before", "lowest", "end")]
        losses = [f"{row['quality_loss_before_km']:.2f}{outside}", f"{row['quality_loss_after_km']:.2f}"]
        taken = f"{row['queries_to_recover']:.0f} ± {half:.0f}{mark}, {row['queries_to_recover_median']:.0f}"
        lines.append([str(lppm), *losses, *efficiencies, taken, f"{row['censored']:.0f}"])
    return lines


def _recovery_tests(users: pd.DataFrame, against: str) -> dict[str, float]:
    """Return the adjusted p-value of each mechanism's difference in queries to recover, paired by user."""
    taken = users.pivot(index="user", columns="lppm", values="queries_to_recover")
    apart = taken.drop(columns=against).sub(taken[against], axis=0)
    p_values = ColumnMoments.of(apart).p_values
    return dict(zip(p_values, holm(np.array(list(p_values.values()))).tolist(), strict=True))


def draw(tables: dict[str, pd.DataFrame], out: Path) -> None:
    """Draw P_AE / Q-bar of each mechanism at two losses; 1 is the ceiling of a belief equal to the adversary's."""
    rows = max(table["lppm"].nunique() for table in tables.values())
    figure, axes = plt.subplots(1, len(tables), figsize=(3.2 * len(tables), 0.3 * rows + 1.4), layout="constrained")
    for panel, (name, table) in zip(np.ravel(axes), tables.items(), strict=True):
        names = list(dict.fromkeys(table["lppm"]))[::-1]
        for loss_km, marker, colour in zip(PANELS_KM, "os", ("#0072B2", "#D55E00"), strict=True):
            own = table[table["quality_loss_km"] == loss_km].set_index("lppm").loc[names]
            share, low, high = (own[f"error_km{end}"].to_numpy(float) / loss_km for end in ("", "_low", "_high"))
            places = np.arange(len(names)) + (0.12 if loss_km == PANELS_KM[0] else -0.12)
            bars = np.vstack([share - low, high - share])
            panel.errorbar(share, places, xerr=bars, fmt=marker, color=colour, markersize=4, label=f"{loss_km} km")
        panel.axvline(1, color="#777777", linestyle="--", linewidth=0.9)
        panel.set_yticks(range(len(names)), names)
        panel.set_xlabel("adversary error per loss")
        experiment, _, data = name.partition("-")
        panel.set_title(f"{TITLES[experiment]}, {data}", fontsize=10)
        panel.grid(axis="x", alpha=0.3)
    np.ravel(axes)[0].legend(title="quality loss", fontsize=8, title_fontsize=8, loc="lower left")
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    main()
