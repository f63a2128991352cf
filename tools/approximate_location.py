"""Fill the tables and the figure of docs/approximate_location.md from a run of scenarios/approximate_location.yaml.

    lppm-sim run scenarios/approximate_location.yaml -o RUN
    python tools/approximate_location.py RUN --page docs/approximate_location.md -o docs/images/approximate_location.png

Mechanisms with a single loss are those of phones and apps; mechanisms with a sweep are read off at the loss of each of
them. Errors are interpolated by user, shares and homes over the mean losses of the sweep points.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import sim
from sim.analysis.answers.questions import HOME, LOCATED
from sim.analysis.curves import curve_of_user, user_points
from sim.analysis.statistics import mean_interval
from sim.analysis.user_curves import prior_errors
from sim.interfaces import FloatArray
from tools.beyond import replaced

RADIUS_KM = 0.564
OURS = "PEB-SPMK-AMix"
ROUTINE, STRANGER = "routine", "stranger"
ADVERSARIES: dict[str, tuple[str, ...]] = {ROUTINE: ("markov",), STRANGER: ("stranger", "home")}
"""Attacks of each adversary; the strongest of them counts, for each mechanism and metric."""
NAMES = ("routine", "stranger", "others")
SERIES = ["lppm", "point"]
PHONE_COLOUR, OUR_COLOUR = "#D55E00", "#0072B2"
Lines = list[list[str]]


def main() -> None:
    """Replace the tables of the page and draw the figure; print the tables without a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--page", type=Path, help="page whose tables are replaced")
    parser.add_argument("-o", "--out", type=Path, help="figure")
    options = parser.parse_args()
    evidence = Evidence(sim.Result.open(options.run))
    if options.page is not None:
        options.page.write_text(replaced(options.page.read_text(), partial(table_of, evidence)))
    else:
        print("\n\n".join(f"% table: {name}\n\n{table_of(evidence, name)}\n\n% end" for name in NAMES))
    if options.out is not None:
        draw({name: evidence.compared(name) for name in ADVERSARIES}, evidence.last_day, options.out)


class Evidence:
    """The answers and errors of a finished run."""

    def __init__(self, result: sim.Result) -> None:
        if not result.manifest.finished:
            raise SystemExit(f"{result.run} is not finished: continue the run before its tables are made")
        answers = result.answers(radii_km=[RADIUS_KM])
        rows = pd.concat(list(result.comparable_users()))
        order = {lppm.name: number for number, lppm in enumerate(result.manifest.scenario.lppms)}
        self.points = user_points(rows)
        self.losses = self.points.groupby(SERIES)["loss"].mean()
        self.located = answers.table[answers.table["question"] == LOCATED]
        self.homes = answers.home_exposure
        self.last_day = int(answers.table.loc[answers.table["question"] == HOME, "day"].max())
        by_attack = {str(name): prior_errors(own) for name, own in rows.groupby("attack")}
        self.prior_errors_km = {name: float(np.mean(list(own.values()))) for name, own in by_attack.items()}
        counts = self.losses.groupby("lppm").size()
        self.fixed = sorted(counts.index[counts == 1], key=order.__getitem__)
        self.swept = sorted(counts.index[counts > 1], key=order.__getitem__)

    def compared(self, adversary: str, ours: str = OURS) -> pd.DataFrame:
        """Return a row for each fixed mechanism, with the values of a swept one at the same loss.

        Columns: `loss_km`, `outside` (the number of users for whom the sweep does not reach the loss), `error_km`,
        `difference_km` (swept minus fixed, with its interval), `located`, `home` (share of homes known on the last
        day) and `median_days`, each also with the prefix `our_`, and the values of the control without any report.
        Values with the prefix `our_` are NaN if the sweep does not reach the loss for at least half of the users.
        """
        return pd.DataFrame([self._row(adversary, name, ours) for name in self.fixed]).set_index("lppm")

    def _row(self, adversary: str, fixed: str, ours: str) -> dict[str, Any]:
        own, theirs = (strongest(self._points(adversary, name)) for name in (fixed, ours))
        errors = paired_errors(own, theirs)
        loss = float(self.losses[fixed].iloc[0])
        row: dict[str, Any] = {"lppm": fixed, "loss_km": loss, "outside": int(errors["outside"].sum())}
        row |= {"users": len(errors), "error_km": errors["own"].mean(), "our_error_km": errors["ours"].mean()}
        row |= mean_interval(errors["ours"] - errors["own"], "difference_km")
        for prefix, name in (("", fixed), ("our_", ours)):
            losses, shares = self._shares(adversary, name)
            row[f"{prefix}located"] = float(np.interp(loss, losses, shares))
            losses, curves = self._curves(adversary, name)
            known = at_loss(loss, losses, curves[:, 0])
            row |= {f"{prefix}home": float(known[-1]), f"{prefix}median_days": median_day(known)}
            row |= {
                f"{prefix}home{end}": at_loss(loss, losses, curves[:, i])[-1] for i, end in ((1, "_low"), (2, "_high"))
            }
        if 2 * row["outside"] >= row["users"]:
            row |= {column: np.nan for column in row if column.startswith(("our_", "difference_"))}
        return row | self._controls(adversary)

    def _points(self, adversary: str, name: str) -> pd.DataFrame:
        rows = self.points[self.points["lppm"] == name]
        return rows[rows["attack"].isin(ADVERSARIES[adversary])]

    def _shares(self, adversary: str, name: str) -> tuple[FloatArray, FloatArray]:
        """Return the losses of the sweep points, ascending, and the largest share located of the attacks."""
        rows = self.located[(self.located["lppm"] == name) & self.located["attack"].isin(ADVERSARIES[adversary])]
        shares = rows.groupby("point")["share"].max()
        losses = self.losses[name].loc[shares.index].sort_values()
        return losses.to_numpy(float), shares.loc[losses.index].to_numpy(float)

    def _curves(self, adversary: str, name: str) -> tuple[FloatArray, FloatArray]:
        """Return the losses of the sweep points, ascending, and the homes known by day, shape (n_points, 3, n_days).

        The second axis has the share and the limits of its interval. Of several attacks, the one that knows most homes
        on average over the days counts.
        """
        rows = self.homes[(self.homes["lppm"] == name) & self.homes["attack"].isin(ADVERSARIES[adversary])]
        losses = self.losses[name].sort_values()
        curves = [
            max(
                (daily(own, self.last_day) for _, own in rows[rows["point"] == point].groupby("attack")),
                key=lambda known: float(known[0].mean()),
            )
            for point in losses.index
        ]
        return losses.to_numpy(float), np.array(curves)

    def _controls(self, adversary: str) -> dict[str, float]:
        own = (table[table["attack"].isin(ADVERSARIES[adversary])] for table in (self.located, self.homes))
        located, home = (float(rows["control"].max()) for rows in own)
        error = min(self.prior_errors_km[name] for name in ADVERSARIES[adversary])
        return {"control_error_km": error, "control_located": located, "control_home": home}


def strongest(points: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the attack with the smallest mean error, for each point of one mechanism."""
    means = points.groupby(["point", "attack"])["error"].mean()
    best = means.groupby("point").idxmin()
    return points[pd.MultiIndex.from_frame(points[["point", "attack"]]).isin(list(best))]


def paired_errors(own: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Return each user's error with a fixed mechanism (`own`), and that of a swept one at the user's loss (`ours`).

    Outside the curve of a user the nearer end counts, and `outside` is true.
    """
    curves = {user: curve_of_user(rows) for user, rows in ours.groupby("user")}
    rows = []
    for user, loss, error in own[["user", "loss", "error"]].itertuples(index=False):
        losses, errors = curves[user]
        outside = not losses[0] <= loss <= losses[-1]
        rows.append({"user": user, "own": error, "ours": np.interp(loss, losses, errors), "outside": outside})
    return pd.DataFrame(rows).set_index("user")


def daily(rows: pd.DataFrame, last_day: int) -> FloatArray:
    """Return the share of homes known at the end of days 1 to `last_day`, and its limits, shape (3, n_days).

    `rows` are steps: their values hold from their day on.
    """
    steps = rows.sort_values("day")
    last = np.searchsorted(steps["day"].to_numpy(float), np.arange(1, last_day + 1), side="right") - 1
    values: FloatArray = steps[["known", "known_low", "known_high"]].to_numpy(float)[last].T
    return values


def at_loss(loss: float, losses: FloatArray, curves: FloatArray) -> FloatArray:
    """Return the curve at a loss, interpolated between rows of `curves`; the nearer end outside.

    >>> at_loss(1.5, np.array([1.0, 2.0]), np.array([[1.0, 1.0], [0.0, 0.5]])).tolist()
    [0.5, 0.75]
    """
    return np.array([np.interp(loss, losses, column) for column in curves.T])


def median_day(known: FloatArray) -> float:
    """Return the first day on which half of the homes are known; infinite if none.

    >>> median_day(np.array([0.1, 0.5, 0.7])), median_day(np.array([0.1]))
    (2.0, inf)
    """
    reached = np.flatnonzero(known >= 0.5 - 1e-9)
    return float(reached[0] + 1) if len(reached) else np.inf


def table_of(evidence: Evidence, name: str) -> str:
    """Return a table as Markdown."""
    if name in ADVERSARIES:
        lines = compared_lines(evidence.compared(name), evidence.last_day if name == STRANGER else 0)
    else:
        lines = of_swept(evidence)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def compared_lines(table: pd.DataFrame, last_day: int) -> Lines:
    """Return the comparison of one adversary, with homes if there is a `last_day`; values of `OURS` after an arrow."""
    titles = ["mechanism", "loss, km", "error, km", "difference, km", "located"]
    titles += ["homes known", "95 % interval", "median days"] if last_day else []
    lines = [titles, ["---"] * len(titles)]
    first = table.iloc[0]
    control = ["*no report*", "", f"{first['control_error_km']:.2f}", "", f"{first['control_located']:.0%}"]
    lines.append([*control, *([f"{first['control_home']:.0%}", "", ""] if last_day else [])])
    for name, row in table.sort_values("loss_km").iterrows():
        mark = "*" if row["outside"] else ""
        half = (row["difference_km_high"] - row["difference_km_low"]) / 2
        apart = "–" if np.isnan(half) else f"{row['difference_km']:+.2f} ± {half:.2f}{mark}"
        cells = [str(name), f"{row['loss_km']:.2f}", _pair(row, "error_km", "{:.2f}"), apart]
        cells.append(_pair(row, "located", "{:.0%}"))
        if last_day:
            ends = f"{row['home_low']:.0%} to {row['home_high']:.0%}"
            days = _pair(row, "median_days", "{:.0f}").replace("inf", f"> {last_day}")
            cells += [_pair(row, "home", "{:.0%}"), ends, days]
        lines.append(cells)
    return lines


def _pair(row: Any, column: str, form: str) -> str:
    """Return the value of the fixed mechanism, and that of the swept one at the same loss if there is any."""
    ours = row[f"our_{column}"]
    return form.format(row[column]) + ("" if np.isnan(ours) else f" → {form.format(ours)}")


def of_swept(evidence: Evidence) -> Lines:
    """Return errors and homes known with each swept mechanism at the loss of each fixed one."""
    names = evidence.swept
    lines = [["value", "at the loss of", "its value", *names], ["---"] * (len(names) + 3)]
    for adversary, column, form in (
        (ROUTINE, "error_km", "{:.2f}"),
        (STRANGER, "error_km", "{:.2f}"),
        (STRANGER, "home", "{:.0%}"),
    ):
        own = evidence.compared(adversary).sort_values("loss_km")[column]
        ours = [dict(evidence.compared(adversary, name)[f"our_{column}"]) for name in names]
        label = f"{'homes known' if column == 'home' else 'error, km'}: {adversary}"
        for fixed, value in own.items():
            values = [float(of_name[fixed]) for of_name in ours]
            if not np.isnan(values).all():
                lines.append([label, str(fixed), form.format(value), *map(form.format, values)])
    return lines


PANELS = (
    (ROUTINE, "error_km", "Knows the routine:\nerror of the estimate, km"),
    (ROUTINE, "located", "Knows the routine:\nlocated within 564 m"),
    (STRANGER, "located", "Stranger:\nlocated within 564 m"),
    (STRANGER, "home", "Stranger: homes known\nafter {days} days"),
)
"""Adversary, column and heading of each panel of the figure."""
TITLE = (
    "Coarse grids hide homes from strangers, but hide little from somebody who knows the routine.\n"
    "Adaptive noise at the same loss hides more from the latter, but reveals more homes to strangers."
)


def draw(tables: dict[str, pd.DataFrame], last_day: int, out: Path) -> None:
    """Draw each fixed mechanism and `OURS` at the same loss, next to the control without any report."""
    names = list(tables[ROUTINE].sort_values("loss_km", ascending=False).index)
    with plt.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = plt.subplots(1, len(PANELS), figsize=(11, 0.34 * len(names) + 2.4), sharey=True)
        for panel, (adversary, column, heading) in zip(axes, PANELS, strict=True):
            _panel(panel, tables[adversary].loc[names], column, share=column != "error_km")
            panel.set_title(heading.format(days=last_day), fontsize=10.5, loc="left")
            panel.set_xlabel("better protected " + ("→" if column == "error_km" else "←"), fontsize=9.5)
        losses = tables[ROUTINE]["loss_km"].loc[names]
        axes[0].set_yticks(range(len(names)), [f"{name}  ({losses[name]:.1f} km)" for name in names])
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False, bbox_to_anchor=(0.5, 0.0))
        axes[0].set_ylabel("mechanism (quality loss)")
        figure.suptitle(TITLE, fontsize=12.5, fontweight="bold", x=0.01, ha="left")
        figure.tight_layout(rect=(0, 0.06, 1, 1), w_pad=2)
        figure.savefig(out, dpi=150)
    plt.close(figure)


def _panel(panel: Any, table: pd.DataFrame, column: str, *, share: bool) -> None:
    places, own, ours = np.arange(len(table)), table[column], table[f"our_{column}"]
    marks = {"linestyle": "", "zorder": 3, "clip_on": False}
    panel.hlines(places, own, ours, color="#999999", linewidth=1.4, zorder=1)
    panel.plot(own, places + 0.09, marker="o", color=PHONE_COLOUR, markersize=7, label="phone or app", **marks)
    panel.plot(ours, places - 0.09, marker="D", color=OUR_COLOUR, markersize=6, label=f"{OURS}, same loss", **marks)
    panel.axvline(table[f"control_{column}"].iloc[0], color="black", linestyle="--", linewidth=1.1, label="no report")
    panel.set_xlim((-0.03, 1.03) if share else (-0.03, None))
    panel.grid(axis="x", color="#dddddd")
    panel.set_axisbelow(True)
    if share:
        panel.xaxis.set_major_formatter("{x:.0%}")


if __name__ == "__main__":
    main()
