"""Execution of many simulations: plan, workers, stopping rule and resumption."""
