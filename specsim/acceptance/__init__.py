"""How many drafts are proposed and how many survive: exact expectations and distributions."""

from specsim.acceptance.finishing import RoundsToFinish, rounds_to_finish
from specsim.acceptance.process import (
    AcceptanceProcess,
    AcceptedLengths,
    Conditional,
    InClasses,
    InRegimes,
    chain_of,
    now_and_then,
    process_of,
)
from specsim.acceptance.rates import (
    independent_tokens_per_round,
    rate_from_tokens_per_round,
    rate_where,
    rounds_for_tokens,
)
from specsim.acceptance.regimes import RegimeChain, RegimeRounds

__all__ = [
    "AcceptanceProcess",
    "AcceptedLengths",
    "Conditional",
    "InClasses",
    "InRegimes",
    "RegimeChain",
    "RegimeRounds",
    "RoundsToFinish",
    "chain_of",
    "independent_tokens_per_round",
    "now_and_then",
    "process_of",
    "rate_from_tokens_per_round",
    "rate_where",
    "rounds_for_tokens",
    "rounds_to_finish",
]
