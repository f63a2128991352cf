"""Attacks: procedures by which adversaries infer cells and identities from the reports."""
