"""Location privacy-preserving mechanisms (LPPMs): base channels, optimal remapping, designs and the mechanism."""
