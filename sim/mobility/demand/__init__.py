"""Demand: times of queries, one file per kind.

The cell of a query is that of the last visit. Each demand reads no more visits in advance than necessary.
"""
