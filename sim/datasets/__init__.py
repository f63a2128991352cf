"""Public data sets of recorded movement: import raw downloads into trace files, and describe them."""
