"""Does speculative decoding pay off here, with which draft length, and how far is the answer to be trusted?

The functions mirror the commands and take names of cards, paths of YAML files, or records of ``specsim.specs``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from specsim.api import (
        Explanation,
        Table,
        calibrate,
        catalog_list,
        explain,
        fit,
        optimal_gamma,
        resolve,
        rules,
        simulate,
        sweep,
        validate,
    )
    from specsim.engine.functions import measure
    from specsim.errors import InputError, SpecsimError

_HOMES = {
    "Explanation": "specsim.api",
    "InputError": "specsim.errors",
    "Table": "specsim.api",
    "calibrate": "specsim.api",
    "catalog_list": "specsim.api",
    "SpecsimError": "specsim.errors",
    "explain": "specsim.api",
    "fit": "specsim.api",
    "measure": "specsim.engine.functions",
    "optimal_gamma": "specsim.api",
    "resolve": "specsim.api",
    "rules": "specsim.api",
    "simulate": "specsim.api",
    "sweep": "specsim.api",
    "validate": "specsim.api",
}

__all__ = [
    "Explanation",
    "InputError",
    "SpecsimError",
    "Table",
    "__version__",
    "calibrate",
    "catalog_list",
    "explain",
    "fit",
    "measure",
    "optimal_gamma",
    "resolve",
    "rules",
    "simulate",
    "sweep",
    "validate",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: ``specsim --help`` needs no numpy."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'specsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
