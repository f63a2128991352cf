"""Inference as pure functions over arrays: Bayes' rule, smoothing, maximum likelihood."""
