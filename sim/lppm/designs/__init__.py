"""Designs: how a prior becomes a channel, one file per kind."""
