"""Roads as a directed graph: a generated lattice, CSV files or GraphML from osmnx, and road closures."""
