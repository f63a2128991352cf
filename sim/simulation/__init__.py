"""One simulation: population, engine, agents, stream, recorder."""
