"""Cost estimates: queries, time and memory of a scenario before it is run."""
