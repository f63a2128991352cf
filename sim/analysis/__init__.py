"""Analysis of a run: tables, comparisons and sentences computed from the event log."""
