"""Mobility: movement of users, times of their queries, training data and behaviour shifts."""
