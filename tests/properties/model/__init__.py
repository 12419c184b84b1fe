"""A model of the protocol of docs/freshness.md, small enough to walk through all of its states."""
