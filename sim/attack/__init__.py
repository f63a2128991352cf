"""Attacks: what adversaries make of the reports they see."""

from sim.attack.assumed import AssumingAttack
from sim.attack.face_value import FaceValueAttack
from sim.attack.hindsight import PathAttack, SmoothingAttack
from sim.attack.identification import IdentificationAttack
from sim.attack.optimal import HiddenChannel, OptimalAttack

__all__ = [
    "AssumingAttack",
    "FaceValueAttack",
    "HiddenChannel",
    "IdentificationAttack",
    "OptimalAttack",
    "PathAttack",
    "SmoothingAttack",
]
