"""Channels: the obfuscation probabilities f(z | x) in force at one query, one file per form."""
