"""The commands: one module each, parsing and printing only. Heavy imports are inside the command functions."""
