"""Mechanisms outside the simulator: protect a live stream, and export a mechanism for other languages."""
