"""Answers that people understand: located, home known, places found, singled out, linked; each beside control attacks.

Modules with mathematics take plain arrays: positions in km on a plane, times in seconds, radii in km. `collect` and
`table` apply them to the event log of a run.
"""
