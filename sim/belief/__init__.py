"""What somebody believes about where a user is at her next query: the mechanism designs with it, the attack infers."""

from sim.belief.forgetting import Forgetting
from sim.belief.gravity import GravityFilter
from sim.belief.home import HomeProfile
from sim.belief.in_force import InForce
from sim.belief.markov import MarkovFilter
from sim.belief.markov_em import EstimatedMarkov
from sim.belief.profile import EstimatedProfile, FixedProfile
from sim.belief.regularised import CrossValidated, RecursiveProfile, Regularisation, smoothing_kernel

__all__ = [
    "CrossValidated",
    "EstimatedMarkov",
    "EstimatedProfile",
    "FixedProfile",
    "Forgetting",
    "GravityFilter",
    "HomeProfile",
    "InForce",
    "MarkovFilter",
    "RecursiveProfile",
    "Regularisation",
    "smoothing_kernel",
]
