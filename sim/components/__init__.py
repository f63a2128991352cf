"""What all components share: parameters, the registry, custom classes."""
