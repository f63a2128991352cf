"""Survey of a trace file of any size: counts, sampling, gaps, quality, and a suggested region and grid."""
