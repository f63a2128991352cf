"""Hidden state of mechanisms: secrets that outputs depend on and that are never released."""
