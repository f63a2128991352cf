"""Attacks: what adversaries infer from the reports."""
