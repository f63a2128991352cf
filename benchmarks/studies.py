"""Rows about studies: cost of chunks, workers and the driver of many simulations."""

from __future__ import annotations

from benchmarks import sweeps
from benchmarks.scale import Scale
from benchmarks.targets import Measurement, Skipped
from benchmarks.timing import slowest_case
from sim.errors import UserError
from sim.execution.pool import usable_cores


def measure_chunk(scale: Scale, *, pool: str) -> Measurement:
    """Measure the time of a chunk with almost no work."""
    try:
        return Measurement(
            sweeps.seconds_per_chunk(pool, scale.chunks), 1.0, note="wall-clock time, one query per chunk"
        )
    except UserError as error:
        raise Skipped(str(error)) from error


def measure_simulation(scale: Scale) -> Measurement:
    """Measure the time of a simulation with almost no work."""
    samples = {"SP-Exp": sweeps.simulation_samples(scale.rounds)}
    return Measurement(*slowest_case(samples), samples)


def measure_workers(scale: Scale) -> Measurement:
    """Measure the time of a sweep on two workers and on one, from start to end."""
    if usable_cores() < 2:
        raise Skipped("the machine has only one core")
    samples = {
        "sweep": sweeps.sweep_samples(
            scale.sweep_replications, scale.sweep_users, scale.long_rounds, start_up=scale.sweep_start_up
        )
    }
    start_up = "included" if scale.sweep_start_up else "subtracted"
    return Measurement(*slowest_case(samples), samples, note=f"wall-clock time of `lppm-sim run`, start-up {start_up}")


def measure_driver(scale: Scale) -> Measurement:
    """Measure the memory of a driver of many simulations and of few, imports included."""
    many, few = sweeps.driver_bytes(scale.simulations), sweeps.driver_bytes(scale.few_simulations)
    return Measurement(many, few, note=f"{scale.simulations:,} simulations, imports included")


def measure_estimate(_scale: Scale) -> Measurement:
    """Measure the factor between the time that `check` estimates and the CPU time of the run."""
    samples = {name: sweeps.estimate_sample(scenario) for name, scenario in sweeps.ESTIMATED.items()}
    return Measurement(*slowest_case(samples), samples, note="larger / smaller, worst case")
