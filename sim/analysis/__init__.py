"""From the event log to tables, comparisons and sentences."""
