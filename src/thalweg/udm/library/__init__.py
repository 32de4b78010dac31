"""The shipped library: worked examples that are also of use. Its namespace is `std`, which may be
left out.

average, time_weighted_average                    averages.py
median, mode, top_k                               positions.py
weighted_quantile, heavy_hitters                  sketches.py   (Apache DataSketches)
interpolate, followed_by, head_and_shoulders      signals.py
"""

from thalweg.udm.library import averages, positions, signals, sketches

__all__ = ["averages", "positions", "signals", "sketches"]
