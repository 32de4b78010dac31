"""The key index under the name that the window kernels use (see `thalweg.state.key_index`)."""

from thalweg.state.key_index import KeyIndex as KeyBook

__all__ = ["KeyBook"]
