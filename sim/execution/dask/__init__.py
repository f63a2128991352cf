"""Chunks on a Dask cluster: one on this machine, or the scheduler at an address."""
