"""A question of ``fit``, as written to what is checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specsim.catalog.recorded import Recorded, read_recorded
from specsim.catalog.strict_yaml import plain_value
from specsim.errors import Fault, InputError, Place, shown
from specsim.specs.fields import LONGEST_DRAFT, Kind, whole

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
    faults: list[Fault] = []

    def read(name: str, value: Any, kind: Kind, default: Any) -> Any:
        if value is None:
            return default
        plain = plain_value(value) if isinstance(value, str) else value
        try:
            return kind.read(plain)
        except ValueError as error:
            faults.append(Fault(f"expected {error}, found {shown(value)}.", Place(parameter=name)))
            return default

    numbers = {
        "gamma": read("gamma", gamma, whole(1, LONGEST_DRAFT), None),
        "regimes": read("regimes", regimes, whole(1, MOST_REGIMES), None),
        "replicates": read("replicates", replicates, whole(20, 10_000), 400),
        "seed": read("seed", seed, whole(0, 2**63 - 1), 0),
    }
    if faults:
        raise InputError(faults)
    paths = [str(path) for path in ([logs] if isinstance(logs, str | Path) else logs)]
    recorded = read_recorded(
        paths,
        None if before is None else str(before),
        None if after is None else str(after),
        "auto" if source is None else source,
        numbers.pop("gamma"),
    )
    return FitQuestion(recorded, **numbers)
