"""From YAML text to validated data, with the position of every fault."""
