"""Memory of large arrays is kept for the next ones.

The C library on Linux maps blocks of more than 128 KiB anew each time, and gives the top of its
heap back to the system whenever more than that is free. Then each page of a fresh array is a fault,
which costs more than what most kernels do with it. Both limits grow to the largest block that was
ever freed, up to 32 MiB; so one such block, whose pages are never touched, is freed here before any
array is made. Up to twice its size stays with the process. Elsewhere this changes nothing.
"""

from __future__ import annotations

import numpy as np

__all__: list[str] = []

np.empty(24 << 20, np.uint8)
