"""Parse YAML text and validate it, with the position of every fault."""
