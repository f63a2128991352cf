"""Losses of the users of services, computed from the event log after a run."""
