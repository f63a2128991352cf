"""Simulation of chunks on a Dask cluster, on this machine or at a scheduler's address."""
