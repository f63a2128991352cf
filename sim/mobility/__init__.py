"""Mobility: where people go and when they query."""
