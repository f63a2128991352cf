"""Changes of behaviour."""
