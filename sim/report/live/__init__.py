"""Live view of a run: its report so far, served to this machine alone while the simulation runs.

The simulation keeps the main thread, and Ctrl-C with it. Pages are made in the server's threads, only on request, and
rarely enough to leave the simulation most of the time.
"""
