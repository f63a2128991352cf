"""Beliefs: what a mechanism or an adversary believes about where a user is at the next query."""
