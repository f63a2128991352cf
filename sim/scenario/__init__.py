"""Scenarios: what a scenario file may hold, reading it, and the points of its sweep."""
