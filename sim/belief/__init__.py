"""Beliefs: knowledge, of a mechanism or an adversary, about the cell of a user's next query."""
