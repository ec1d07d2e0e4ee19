"""How many drafts are proposed and how many survive: exact expectations and distributions."""

from specsim.acceptance.process import AcceptanceProcess, AcceptedLengths, Conditional, process_of
from specsim.acceptance.rates import (
    independent_tokens_per_round,
    rate_from_tokens_per_round,
    rate_where,
    rounds_for_tokens,
)

__all__ = [
    "AcceptanceProcess",
    "AcceptedLengths",
    "Conditional",
    "independent_tokens_per_round",
    "process_of",
    "rate_from_tokens_per_round",
    "rate_where",
    "rounds_for_tokens",
]
