"""Reproduction of the paper's evaluation: ten studies, 22 panels, and tests of its claims."""
