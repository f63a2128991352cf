"""Kinds of distances, one file each."""
