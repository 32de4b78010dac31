"""Values by their position: the median."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from thalweg.udm.decorators import aggregate

__all__ = ["median"]


@aggregate("std.median", inputs={"value": "double"}, output="double", takes="numpy", nulls="skip", any_order=True)
def median(values: npt.NDArray[np.float64]) -> float:
    """The middle value; between the two middle ones when there are two."""
    return float(np.median(values))
