"""The rows of the benchmark, each with its limit and its target."""

from __future__ import annotations

from functools import partial

from benchmarks import city, mechanisms, previous, queries, street, studies
from benchmarks.replay import measure_replay
from benchmarks.targets import Row

_PASS = "one gradient pass over the likelihoods (NumPy, two matrix-vector products)"
_STEP = "one vector @ matrix over the cells (NumPy)"
_SECOND = "one second, the minimum duration of a chunk"
_PRODUCT = "weights @ distance, the n x n x n product in NumPy"

ROWS = (
    Row("peb", "a PEB query at r = 300", _PASS, "at_most", 12, "s", queries.measure_peb),
    Row(
        "peb-expected",
        "the same with expected metrics",
        _PASS,
        "at_most",
        24,
        "s",
        partial(queries.measure_peb, expected=True),
    ),
    Row("peb-large", "a PEB query at r = 300, 2,500 cells", _PASS, "at_most", 12, "s", queries.measure_peb_large),
    Row("mk", "an MK query", _STEP, "at_most", 12, "s", queries.measure_markov),
    Row(
        "mk-expected",
        "the same with expected metrics",
        _STEP,
        "at_most",
        24,
        "s",
        partial(queries.measure_markov, expected=True),
    ),
    Row("peb-mk", "a PEB-MK query", "an MK query", "at_most", 3, "s", queries.measure_gravity),
    Row("sp", "an SP query among 1,000 agents", "one bare SimPy timeout", "at_most", 10, "s", queries.measure_sporadic),
    Row("remap", "the remap of all outputs", _PRODUCT, "at_least", 30, "s", mechanisms.measure_remap),
    Row(
        "peb-run",
        "a PEB run of 300 queries",
        "EM from the uniform profile and the textbook remap at every query",
        "at_least",
        100,
        "s",
        queries.measure_peb_run,
    ),
    Row("qif", "the remap of all outputs", "qif.measure.l_risk.strategy", "at_least", 50, "s", mechanisms.measure_qif),
    Row("optimal", "an optimal mechanism for 100 cells", "20 s", "at_most", 1, "s", mechanisms.measure_optimal),
    Row("memory", "PEB users", "their likelihood rows", "at_most", 1.2, "bytes", queries.measure_memory),
    Row("growth", "growth of a PEB query with r", "linear in r", "at_most", 1.1, "exponent", queries.measure_growth),
    Row(
        "simulation",
        "a simulation of one query",
        "one of 1,000 SP queries",
        "at_most",
        0.5,
        "s",
        studies.measure_simulation,
    ),
    *(
        Row(
            f"chunk-{pool}",
            f"a chunk of one query, {where}",
            _SECOND,
            "at_most",
            0.05,
            "s",
            partial(studies.measure_chunk, pool=pool),
        )
        for pool, where in {"here": "in this process", "workers": "2 workers", "dask": "2 Dask workers"}.items()
    ),
    Row("workers", "a sweep on two workers", "the same on one", "at_least", 1.8, "s", studies.measure_workers),
    Row(
        "estimate",
        "the time that `check` estimates",
        "the CPU time of the run",
        "at_most",
        10,
        "s",
        studies.measure_estimate,
    ),
    Row("replay", "a frame of the replay of 200 users", "1/30 s", "at_most", 1, "s", measure_replay),
    *(
        Row(
            f"street-growth-{name}",
            f"growth of a query with the cells: {', '.join(beliefs)}",
            "linear in the cells",
            "at_most",
            1.15,
            "exponent",
            partial(street.measure_growth, beliefs=beliefs),
        )
        for name, beliefs in {"recursive": ("SP", "MK", "RPEB", "PEB-MK"), "peb": ("PEB",)}.items()
    ),
    Row("street-peb", "a PEB query at r = 300, 33,600 cells", _PASS, "at_most", 4, "s", street.measure_query),
    Row(
        "street-memory",
        "a PEB user at r = 300, 33,600 cells",
        "the likelihood rows",
        "at_most",
        0.15,
        "bytes",
        street.measure_peb_memory,
    ),
    Row(
        "street-markov",
        "a Markov model at 33,600 cells",
        "its transitions as a sparse matrix",
        "at_most",
        3,
        "bytes",
        street.measure_markov_memory,
    ),
    Row("street-run", "a whole run at 33,600 cells", "10 min", "at_most", 1, "s", street.measure_run_time, long=True),
    Row("street-run-memory", "the same run", "3 GB", "at_most", 1, "bytes", street.measure_run_memory, long=True),
    Row(
        "city-cost",
        "an SP query among 1,000,000 users",
        "one among 1,000 users",
        "at_most",
        1.2,
        "s",
        city.measure_cost,
        long=True,
    ),
    Row(
        "city-memory",
        "driver or worker with 1,000,000 users",
        "with 1,000 users",
        "at_most",
        1.5,
        "bytes",
        city.measure_memory,
        long=True,
    ),
    Row("city-dask", "a simulation on two Dask workers", "on one", "at_least", 1.85, "s", city.measure_dask),
    Row(
        "checkins",
        "the simulation of sporadic_checkins",
        "version 0.1",
        "at_least",
        2.5,
        "s",
        previous.measure_checkins,
    ),
    Row("driver", "the driver of 100,000 simulations", "that of 100", "at_most", 1.5, "bytes", studies.measure_driver),
)
