"""Print the tables of docs/beyond.md from runs of scenarios/beyond, and draw its figure.

    python tools/beyond.py RUNS -o docs/images/beyond.png

RUNS is a folder with a run directory for each scenario, named after it, as `lppm-sim run scenarios/beyond/NAME.yaml -o
RUNS/NAME` makes it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import sim

LOSSES_KM = {"sp-gowalla": (1, 2, 3), "sp-brightkite": (1, 2), "mk-gowalla": (1, 2, 3), "mk-brightkite": (1, 2)}
LOSSES_KM |= {"mk-taxicab": (1, 2, 3)}
"""Losses at which at least five users are compared."""
REFERENCE = {"mk-taxicab": "MK both-Exp"}
BASELINES = dict.fromkeys(LOSSES_KM, ("PEB-Exp", "MK-Exp", "RPEB-Exp")) | {
    "mk-taxicab": ("PEB blank-Exp", "MK both-Exp", "RPEB blank-Exp")
}
RECOMMENDED = dict.fromkeys(LOSSES_KM, ("PEB-MK-AMix",)) | {
    "mk-taxicab": ("PEB-MK other cabs-AMix", "PEB-MK both-AMix")
}
TITLES = {"sp": "Experiment SP", "mk": "Experiment MK"}
PANELS_KM = (1, 2)


def main() -> None:
    """Print a table for each scenario, and draw the figure if requested."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    tables = {}
    for name, losses_km in LOSSES_KM.items():
        result = sim.Result.open(options.runs / name)
        tables[name] = result.at_loss(list(losses_km), against=REFERENCE.get(name, "RPEB-Exp"))
        print(f"## {name}\n\n{markdown(tables[name])}\n")
    print(f"## recommended\n\n{leads(options.runs)}\n")
    if options.out is not None:
        draw(tables, options.out)


def markdown(table: pd.DataFrame) -> str:
    """Return P_AE, its difference to the reference, the error after smoothing and the entropy at each loss."""
    metrics = {"smoothed": "smoothed_error_km", "entropy": "entropy_bits"}
    metrics = {name: column for name, column in metrics.items() if column in table and table[column].notna().any()}
    losses_km = list(dict.fromkeys(table["quality_loss_km"]))
    users = table.groupby("quality_loss_km")["users"].max()
    titles = ["mechanism"]
    for loss_km in losses_km:
        titles += [f"{loss_km} km ({users[loss_km]} users)", "difference", *metrics]
    lines = [titles, ["---"] * len(titles)]
    for lppm in dict.fromkeys(table["lppm"]):
        line = [str(lppm)]
        for loss_km in losses_km:
            ((_, row),) = table[(table["lppm"] == lppm) & (table["quality_loss_km"] == loss_km)].iterrows()
            mark = "*" if row["at_largest"] + row["at_smallest"] > 0 else ""
            line += [f"{row['error_km']:.3f}{mark}", _difference(row)]
            line += [f"{row[column]:.{2 if name == 'entropy' else 3}f}" for name, column in metrics.items()]
        lines.append(line)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def leads(runs: Path) -> str:
    """Return the lead of the recommended mechanism over each baseline, paired by user, at each loss."""
    lines = [["scenario", "mechanism", "km", "minus PEB", "minus MK", "minus RPEB"], ["---"] * 6]
    for name, losses_km in LOSSES_KM.items():
        result = sim.Result.open(runs / name)
        for own in RECOMMENDED[name]:
            table = result.at_loss(list(losses_km), against=own).set_index(["quality_loss_km", "lppm"])
            for loss_km in losses_km:
                rows: list[Any] = [table.loc[(loss_km, baseline)] for baseline in BASELINES[name]]
                halves_km = [(row["difference_km_high"] - row["difference_km_low"]) / 2 for row in rows]
                pairs = zip(rows, halves_km, strict=True)
                differences = [f"{-row['difference_km']:+.3f} ± {half_km:.3f}" for row, half_km in pairs]
                lines.append([name, own, str(loss_km), *differences])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _difference(row: Any) -> str:
    half_km = (row["difference_km_high"] - row["difference_km_low"]) / 2
    return "" if row["lppm"] == row["against"] else f"{row['difference_km']:+.3f} ± {half_km:.3f}"


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
