"""A fragment at work in one bucket: its inputs, its promises, its state."""
