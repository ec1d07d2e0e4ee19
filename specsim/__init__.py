"""Does speculative decoding pay off here, with which draft length, and how far is the answer to be trusted?

The functions mirror the commands and take names of cards, paths of YAML files, or records of ``specsim.specs``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from specsim.api.acceptances import fit, rules, simulate
    from specsim.api.accuracy import calibrate, validate
    from specsim.api.cards import catalog_list
    from specsim.api.explaining import explain
    from specsim.api.loads import capacity
    from specsim.api.measuring import measure
    from specsim.api.planning import optimal_gamma, resolve, sweep
    from specsim.api.trees import optimal_tree
    from specsim.errors import InputError, SpecsimError
    from specsim.report.explanation import Explanation
    from specsim.report.table import Table

_HOMES = {
    "Explanation": "specsim.report.explanation",
    "InputError": "specsim.errors",
    "Table": "specsim.report.table",
    "calibrate": "specsim.api.accuracy",
    "capacity": "specsim.api.loads",
    "catalog_list": "specsim.api.cards",
    "SpecsimError": "specsim.errors",
    "explain": "specsim.api.explaining",
    "fit": "specsim.api.acceptances",
    "measure": "specsim.api.measuring",
    "optimal_gamma": "specsim.api.planning",
    "optimal_tree": "specsim.api.trees",
    "resolve": "specsim.api.planning",
    "rules": "specsim.api.acceptances",
    "simulate": "specsim.api.acceptances",
    "sweep": "specsim.api.planning",
    "validate": "specsim.api.accuracy",
}

__all__ = [
    "Explanation",
    "InputError",
    "SpecsimError",
    "Table",
    "__version__",
    "calibrate",
    "capacity",
    "catalog_list",
    "explain",
    "fit",
    "measure",
    "optimal_gamma",
    "optimal_tree",
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
