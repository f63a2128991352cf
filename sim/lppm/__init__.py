"""Location privacy-preserving mechanisms: base channels, their optimal remap, designs, and the mechanism itself."""
