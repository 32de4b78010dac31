"""The shipped library: worked examples that are also of use. Its namespace is `std`."""

from thalweg.udm.library import averages, positions

__all__ = ["averages", "positions"]
