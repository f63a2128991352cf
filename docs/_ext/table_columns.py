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
        "queries_to_recover_median": "Median over users.",
        "pooled_queries_to_recover": "Queries to recover of the time series of all users together.",
        "pooled_censored": "Whether that time series did not recover.",
        "pooled_queries_lost": "Queries lost of that time series.",
    },
    "answers.csv": {
        **_POINT,
        "question": "located, posterior, reports, home, places, singled_out or linked.",
        "radius_km": "Radius; empty for questions without one.",
        "places": "Number N of places; empty for questions without one.",
        "share": "Success of the attack; with bounds of the 95 % confidence interval.",
        "interval": "Kind of the interval: Student, delta method, Kaplan-Meier or Wilson.",
        "control_kind": "Knowledge of the control attack without any report: others, habits or random.",
        "control": "Success of the control attack.",
        "random": "Success of a random guess.",
        "excess": "Excess risk (share - control) / (1 - control); with bounds. Empty if the control always succeeds.",
        "without_protection": "Success if the true places are reported, for singled_out and linked.",
        "users": "Number of users; for linked those with both weeks.",
        "smallest": "Smallest success of a user.",
        "largest": "Largest success of a user.",
        "resolution_km": "Side of a cell: within smaller radii, places are not distinguished from their cell.",
        "day": "Day at which the share of known homes is given.",
        "median_days": "Days until the homes of half of the users are known, inf if not reached; with bounds.",
        "censored": "Number of users whose home is not known at the end of their observation.",
        "rule": "Rule by which the adversary estimates the home: median, latest or frequent.",
        "rank": "Mean rank of the right user.",
        "random_rank": "Mean rank of the right user in a random order.",
    },
    "home_exposure.csv": {
        **_POINT,
        "radius_km": "Radius.",
        "rule": "Rule by which the adversary estimates the home.",
        "day": "Day of reports, from 0.",
        "known": "Share of users whose home is known by this day; with bounds (Kaplan-Meier).",
        "at_risk": "Number of users whose home is not known before this day and who are still observed.",
        "control_kind": "Knowledge of the control attack without any report: others or habits.",
        "control": "Success of the control attack.",
        "random": "Success of a random guess.",
        "users": "Number of users.",
    },
}
"""Meaning of each column by file. Columns of swept paths follow in all files but `tournament.csv`."""
