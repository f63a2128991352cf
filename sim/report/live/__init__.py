"""Live view of a run: its report so far, served to the local machine only while the simulation runs.

The simulation runs in the main thread and handles Ctrl-C. Pages are rendered in the threads of the server, only on
request, and rarely enough to leave most of the time to the simulation.
"""
