"""Rows about mechanisms: cost of a remap and of an optimal mechanism."""

from __future__ import annotations

from functools import partial
from importlib import import_module

import numpy as np

from benchmarks import limits
from benchmarks.people import City
from benchmarks.scale import Scale
from benchmarks.targets import Measurement, Skipped
from benchmarks.timing import seconds_of, side_by_side, slowest_case
from sim.interfaces import Channel, FloatArray, IntArray
from sim.lppm.designs.optimal_privacy import OptimalPrivacy, OptimalPrivacyParameters
from sim.lppm.designs.optimal_quality import OptimalQuality, OptimalQualityParameters
from sim.world.distances.euclidean import euclidean

SAME_KM = 1e-12
"""Maximum difference of the expected losses of two remaps that count as equally good."""

LONGEST_PROGRAM_S = 20.0
"""CPU time allowed for an optimal mechanism for 100 cells; it grows with the fourth power of their number."""


def measure_remap(scale: Scale) -> Measurement:
    """Time the remap of all outputs, and compare its expected loss with that of the textbook's remap."""
    city = City(scale.shape)
    prior = _full_support_prior(city, scale)
    worst_km = 0.0
    cases = {}
    for name, design in city.designs(scale.designs).items():
        channel = city.base_matrix(name)
        weights, distance_km = np.ascontiguousarray((prior[:, None] * channel).T), city.distance.matrix_km
        product = partial(np.matmul, weights, distance_km)
        cases[name] = side_by_side(
            partial(seconds_of, partial(design, prior)), partial(seconds_of, product), rounds=scale.rounds
        )
        best = limits.textbook_remap(channel, prior, distance_km)
        worst_km = max(worst_km, abs(_loss_km(design(prior), prior, city) - _loss_of(best, channel, prior, city)))
    note = f"slowest design; expected losses differ by at most {worst_km:.1g} km"
    fault = "" if worst_km <= SAME_KM else f"the remap is not optimal: {worst_km:.1g} km, allowed is {SAME_KM} km"
    return Measurement(*slowest_case(cases), cases, note=note, fault=fault)


def measure_qif(scale: Scale) -> Measurement:
    """Time the remap of all outputs and that of the qif package."""
    try:
        strategy = import_module("qif").measure.l_risk.strategy
    except ImportError:
        raise Skipped("qif is not installed (pip install qif)") from None
    city = City(scale.shape)
    prior = _full_support_prior(city, scale)
    guess_to_secret_km = np.array(city.distance.matrix_km.T)
    cases = {}
    for name, design in city.designs(scale.designs).items():
        reference = partial(strategy, guess_to_secret_km, prior.copy(), city.base_matrix(name))
        cases[name] = side_by_side(
            partial(seconds_of, partial(design, prior)), partial(seconds_of, reference), rounds=scale.long_rounds
        )
    return Measurement(*slowest_case(cases), cases, note="slowest design")


def measure_optimal(scale: Scale) -> Measurement:
    """Time the linear programs of optimal mechanisms, without caches."""
    city = City(scale.optimal_shape)
    prior = _full_support_prior(city, scale)
    limit_s = LONGEST_PROGRAM_S * (city.n_cells / 100) ** 4
    manhattan, straight = city.distance, euclidean(city.world.grid)
    designs = {
        "error by d_P Manhattan": OptimalPrivacy(
            OptimalPrivacyParameters(), quality_distance=straight, privacy_distance=manhattan
        ),
        "error by d_P Euclidean": OptimalPrivacy(
            OptimalPrivacyParameters(), quality_distance=manhattan, privacy_distance=straight
        ),
        "loss under geo-indistinguishability": OptimalQuality(
            OptimalQualityParameters(epsilon_per_km=1.0), metric=straight, quality_distance=manhattan
        ),
    }
    cases = {
        name: side_by_side(partial(seconds_of, partial(design.matrix, prior)), lambda: limit_s, rounds=1)
        for name, design in designs.items()
    }
    note = f"{city.n_cells} cells, HiGHS with interior point; slowest of three programs"
    return Measurement(*slowest_case(cases), cases, note=note)


def _full_support_prior(city: City, scale: Scale) -> FloatArray:
    """Return a prior like that of a mechanism that learns: a profile with a small uniform part."""
    profile = city.statistics(city.trace("user", scale.queries)).profile
    return np.asarray(0.95 * profile + 0.05 / city.n_cells)


def _loss_km(channel: Channel, prior: FloatArray, city: City) -> float:
    return float(prior @ (channel.matrix() * city.distance.matrix_km).sum(axis=1))


def _loss_of(table: IntArray, channel: FloatArray, prior: FloatArray, city: City) -> float:
    """Return the expected loss of a channel whose outputs are remapped by a table."""
    return float(prior @ (channel * city.distance.matrix_km[:, table]).sum(axis=1))
