"""Many simulations: plan, workers, stopping rule, resume."""
