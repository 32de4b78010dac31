"""Answers on their way to a sink, and the places that keep them."""
