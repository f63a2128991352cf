"""Synthetic users: favourites, Markov chains, commuters, taxis."""
