"""Roads as a directed graph: a generated lattice, CSV files or the GraphML of osmnx, and closures of roads."""
