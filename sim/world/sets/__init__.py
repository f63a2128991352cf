"""Kinds of locations other than the cells of a grid, one file each."""
