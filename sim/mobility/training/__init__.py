"""Training data: the queries that mechanisms and adversaries learn from, one file per kind."""
