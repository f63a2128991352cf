"""Columns of the tables in a run directory. A test compares them with the tables of a run."""

from __future__ import annotations

from sim.analysis.metrics import METRICS

_POINT = {
    "point": "Index of the sweep point, from 0; `points.csv` has its values.",
    "lppm": "Name of the mechanism.",
    "attack": "Name of the attack; empty if the scenario has none.",
}
_ENDS = "with `…_low` and `…_high`: bounds of the 95 % confidence interval over users and replications"

COLUMNS: dict[str, dict[str, str]] = {
    "summary.csv": {
        **_POINT,
        "users": "Number of users.",
        "replications": "Number of replications.",
        "queries": "Number of queries of all users and replications.",
        "quality_loss_km": f"Mean quality loss Q-bar; {_ENDS}.",
        "adversary_error_km": f"Mean adversary error P_AE; {_ENDS}.",
        "expected_quality_loss_km": "Q-bar, expected over the mechanism's noise; with bounds. Empty if not recorded.",
        "expected_adversary_error_km": "P_AE, expected over the mechanism's noise; with bounds. Empty if not recorded.",
    },
    "metrics.csv": {
        **_POINT,
        "users": "Number of users.",
        **{name: metric.description[0].upper() + metric.description[1:] + "." for name, metric in METRICS.items()},
    },
    "points.csv": {"point": "Index of the sweep point, from 0. Every other column is a swept path with its values."},
    "hindsight.csv": {
        **_POINT,
        "lag": "Number of reports from the query to its revised estimate, or `final`: after the last report.",
        "users": "Number of users.",
        "guesses": "Number of revised estimates.",
        "adversary_error_km": "Mean error of the revised estimates; with bounds over users.",
        "online_error_km": "Mean error of the first estimates of the same queries; with bounds.",
        "gain_km": "Difference of the two, paired by query; with bounds.",
    },
    "tournament.csv": {
        "rank": "Rank by the error of the strongest attack, 1 for the best protection; empty if not comparable.",
        "lppm": "Name of the mechanism, with its swept values if it would be ambiguous.",
        "quality_loss_km": "Quality loss at which the errors are compared.",
        "adversary_error_km": "Error of the strongest attack.",
        "strongest": "Name of the strongest attack, that with the smallest error.",
        "users": "Number of users whose prior error P0 is at least the common loss. Empty without a common loss.",
        "at_largest": "Number of these users with the error at the largest loss of their curve, which is below it.",
        "at_smallest": "Number of these users with the error at the smallest loss of their curve, which is above it.",
        "smoothed_error_km": "Lowest error of the attacks that estimate past queries again. Empty if not recorded.",
        "entropy_bits": "Posterior entropy of the strongest attack, if recorded. Each further column is an attack.",
    },
    "adaptation.csv": {
        **_POINT,
        "shift": "Name of the behaviour shift.",
        "users": "Number of users with enough queries before and after the shift.",
        "left_out": "Number of users without.",
        "censored": "Number of users who did not recover before their last query.",
        "efficiency_before": "P_AE / Q-bar of all users before the shift; with bounds.",
        "efficiency_lowest": "Lowest P_AE / Q-bar of a window after the shift.",
        "efficiency_end": "P_AE / Q-bar in the last window; with bounds.",
        "queries_to_recover": "Queries until a window has 90 % of `efficiency_before`, mean over users; with bounds.",
        "queries_lost": "Relative deficit summed over the queries until recovery, mean over users; with bounds.",
        "quality_loss_before_km": "Quality loss before the shift, mean over users; with bounds.",
        "quality_loss_after_km": "Quality loss after the shift, mean over users; with bounds.",
        "queries_to_recover_median": "Median over users.",
        "pooled_queries_to_recover": "Queries to recover of the time series of all users together.",
        "pooled_censored": "Whether that time series did not recover.",
        "pooled_queries_lost": "Queries lost of that time series.",
    },
}
"""Meaning of each column by file. Columns of swept paths follow in all files but `tournament.csv`."""
