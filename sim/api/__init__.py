"""The Python API behind the names of `sim`: factories for components, runs with progress, results in notebooks.

A thin layer: validation, construction and simulation are those of scenario files and of the command line.
"""
