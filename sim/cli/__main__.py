"""Run the command line: ``python -m sim.cli``."""

from sim.cli import main

main()
