"""The state of a bucket in a store: slices by name."""
