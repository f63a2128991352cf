"""Recorded traces: reading, days, replay."""
