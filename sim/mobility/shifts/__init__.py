"""Behaviour shifts during the test, one file per kind."""
