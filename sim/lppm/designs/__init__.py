"""Designs, which turn a prior into a channel; one file per kind."""
