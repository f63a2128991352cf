"""Foundations of all components: parameters, the registry, custom classes."""
