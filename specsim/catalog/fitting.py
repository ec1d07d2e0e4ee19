"""A question of ``fit``, as written to what is checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specsim.catalog.given import Given
from specsim.catalog.recorded import Recorded, read_recorded
from specsim.specs.fields import LONGEST_DRAFT, whole

MOST_REGIMES = 4


@dataclass(frozen=True, eq=False)
class FitQuestion:
    """A question of ``fit`` that can be answered.

    Attributes:
        recorded: What was recorded, and where.
        regimes: How many regimes, None to let the criterion choose.
        replicates: Bootstrap replicates.
        seed: Of the generator that draws them.
    """

    recorded: Recorded
    regimes: int | None
    replicates: int
    seed: int


def ask_fit(
    logs: Any = (),
    before: Any = None,
    after: Any = None,
    source: Any = None,
    gamma: Any = None,
    regimes: Any = None,
    replicates: Any = None,
    seed: Any = None,
) -> FitQuestion:
    """The question that the options of ``fit`` pose; what is None takes its default.

    Raises:
        InputError: With one fault for each option that is wrong, or for what is wrong in a file.
    """
    asked = Given({"gamma": gamma, "regimes": regimes, "replicates": replicates, "seed": seed})
    numbers = {
        "gamma": asked.read("gamma", whole(1, LONGEST_DRAFT), None),
        "regimes": asked.read("regimes", whole(1, MOST_REGIMES), None),
        "replicates": asked.read("replicates", whole(20, 10_000), 400),
        "seed": asked.read("seed", whole(0, 2**63 - 1), 0),
    }
    asked.check()
    paths = [str(path) for path in ([logs] if isinstance(logs, str | Path) else logs)]
    recorded = read_recorded(
        paths,
        None if before is None else str(before),
        None if after is None else str(after),
        "auto" if source is None else source,
        numbers.pop("gamma"),
    )
    return FitQuestion(recorded, **numbers)
