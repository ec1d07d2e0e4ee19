"""A fitted acceptance as what was found, as predictions, and as a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from specsim.acceptance.fit import PREDICTED, Fit
from specsim.report.notes import of_acceptance
from specsim.report.table import Table
from specsim.specs.acceptance import Independent, Length, Regimes, Survival

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class FittedAcceptance:
    """What ``fit`` found.

    Attributes:
        acceptance: The acceptance, as other functions take it.
        table: Tokens per round at draft lengths 1 to 12, with intervals of 90 %.
        found: What was found, one sentence each.
        document: The acceptance as a YAML file has it, with its sources.
    """

    acceptance: Independent | Survival | Regimes | Length
    table: Table
    found: tuple[str, ...]
    document: dict[str, Any]

    def to_frame(self) -> pd.DataFrame:
        """The predictions as a pandas frame."""
        return self.table.to_frame()

    def __str__(self) -> str:
        """What was found, one line each."""
        return "\n".join((self.acceptance.label, *(f"  {line}." for line in self.found))) + "\n"

    def _repr_html_(self) -> str:
        """What was found, and the predictions, in a notebook."""
        lines = "<br>".join((self.acceptance.label, *self.found))
        return f"<p>{lines}</p>{self.table._repr_html_()}"


def fitted(found: Fit, acceptance: dict[str, Any], sources: Sequence[str], version: str, seed: int) -> FittedAcceptance:
    """A fit, with where it is from.

    Args:
        found: The fit.
        acceptance: Its acceptance as a document.
        sources: Files and what identifies them.
        version: Of specsim.
        seed: Of the replicates.
    """
    columns = {
        "gamma": PREDICTED,
        "tokens_per_round": found.tokens_per_round,
        "tokens_low": found.low,
        "tokens_high": found.high,
        "extrapolated": found.recorded_gamma < PREDICTED,
    }
    beyond = PREDICTED[found.recorded_gamma < PREDICTED]
    extrapolated = (f"gamma {beyond.min()} and above lies beyond what was recorded",) if beyond.size else ()
    assumed = (*found.assumed, *of_acceptance(found.acceptance))
    assumed = (*assumed, f"seed {seed}") if np.isfinite(found.low).any() else assumed
    document = {
        "format": 1,
        "title": f"Fitted by specsim {version}",
        **acceptance,
        "sources": {"acceptance": "; ".join(sources)},
        "notes": ". ".join((*found.found, *assumed)) + ".",
    }
    table = Table(columns, (len(PREDICTED),), assumed, extrapolated)
    return FittedAcceptance(found.acceptance, table, found.found, document)
