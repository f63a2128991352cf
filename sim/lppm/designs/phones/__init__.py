"""Mechanisms in use on phones and in apps, with the parameters of their sources, one file each."""
