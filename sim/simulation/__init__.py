"""One simulation: population, engine, agents, report stream and recorder."""
