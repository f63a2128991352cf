"""Training data of mechanisms and adversaries, one file per kind."""
