"""Calibration: the strength of a design with which a run realises a loss or an error, found by simulations."""
