"""Which clock times the engine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def chosen_clock() -> tuple[Callable[[], float], str]:
    """A clock in seconds, and what it counts, as a clause.

    On one thread it is the processor's time of this program: what other programs take of a shared core is left out. The
    time of several threads would be counted several times there, so then it is that of the clock on the wall.
    """
    if any(os.environ.get(name) == "1" for name in _THREADS):
        return time.process_time, "times are of the processor, one thread, without what other programs take of it"
    return time.perf_counter, "times are of the clock on the wall"
