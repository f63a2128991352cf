"""Synthetic mobility models: favourites, Markov chains, commuters, taxis."""
