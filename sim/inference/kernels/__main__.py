"""Compile the kernels for this machine: ``python -m sim.inference.kernels``."""

from sim.inference.kernels import describe

print(f"kernels: {describe()}")  # importing the kernels compiles those that are not in the cache
