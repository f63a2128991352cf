"""From goals to a mechanism and its strength: calibrate candidates by simulations, then rank them."""
