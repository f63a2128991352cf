"""Cost estimates: queries, CPU time and memory of a scenario before it is run."""
