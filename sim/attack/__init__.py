"""Attacks: what adversaries make of the reports they see."""

from sim.attack.optimal import HiddenChannel, OptimalAttack

__all__ = ["HiddenChannel", "OptimalAttack"]
