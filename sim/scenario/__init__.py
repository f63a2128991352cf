"""Scenarios: the models of a scenario file, reading it, and the points of its sweep."""
