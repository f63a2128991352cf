"""Shifts: changes of behaviour during the test, one file per kind."""
