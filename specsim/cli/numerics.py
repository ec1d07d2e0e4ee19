"""What numpy's matrix library is told before it is loaded: how many threads, and which kernels."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from specsim.errors import Fault, InputError, Place

_THREADS = ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM", "NUMEXPR")
MOST_THREADS = 1024


def prepare_numpy(threads: str = "1") -> None:
    """Set threads, and ask OpenBLAS for its AVX2 kernels unless somebody chose: read once, when numpy is imported.

    A pass of a few tokens multiplies every matrix with a few rows. OpenBLAS's kernels for AVX-512 rearrange the whole
    matrix first, which takes some 2.5 times as long as one row does; those for AVX2 take 1.5 to 1.9 times as long.
    One thread is the default since threads wait for each other on cores that are shared.

    Raises:
        InputError: If ``threads`` is no number of threads.
    """
    if not (threads.isascii() and threads.isdigit()) or not 1 <= int(threads) <= MOST_THREADS:
        message = f"expected a whole number from 1 to {MOST_THREADS}, found {threads!r}."
        raise InputError(Fault(message, Place(parameter="threads")))
    for name in _THREADS:
        os.environ[f"{name}_NUM_THREADS"] = threads
    if _has_avx2():
        os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")


def _has_avx2() -> bool:
    if sys.platform != "linux":
        return False
    try:
        return " avx2 " in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
