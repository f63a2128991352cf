"""When people query the service: one file per kind of demand.

A user is where the last visit put them. Each demand looks no further ahead in the visits than it must.
"""
