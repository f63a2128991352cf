"""Recorded movement as it is downloaded: read it, keep a region of it as one trace file, and describe it."""
