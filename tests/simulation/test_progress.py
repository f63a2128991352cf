"""The message of an interrupted run."""

from __future__ import annotations

from sim.simulation.progress import Silent, Tally


def interrupted_after(*chunks: int, simulated: int) -> str:
    """Return the message after finished chunks with these numbers of queries, of which `simulated` were reported."""
    tally = Tally(Silent())
    tally.plan("run", chunks=10, kept=0)
    tally.start(1000, chunks=10, skipped=0)
    tally.advance(simulated)
    for queries in chunks:
        tally.keep(queries)
    return tally.interrupted()


def test_the_message_counts_the_queries_of_unfinished_chunks() -> None:
    message = interrupted_after(90, 110, simulated=250)
    assert message.startswith("interrupted; 2 of 10 chunks are finished and kept in run; the other 8 start again ")
    assert "at most about 50 simulated queries are lost, " in message


def test_the_message_estimates_the_loss_of_workers_that_report_whole_chunks() -> None:
    message = interrupted_after(90, 111, simulated=201)
    assert message.endswith(
        "what each worker has simulated of its current chunk is lost, at most about 101 queries for each worker, "
        "the mean of the finished chunks"
    )
    assert interrupted_after(simulated=0).endswith("no query was reported as simulated")
