"""Kinds of grids, one file each."""
