"""Run directories: event log, manifest, snapshots, and the storage back ends."""
