"""Mathematics as pure functions: Bayes, smoothing, maximum likelihood."""
