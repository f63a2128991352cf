"""The benchmark: measures how close the simulator comes to the limits of the machine. Run by `make bench`."""
