"""User-defined modules over windows: their indices, calls and answers."""
