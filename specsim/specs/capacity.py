"""A question about capacity, but for what is on offer: the load, what it is promised, and how engines work."""

from __future__ import annotations

import math
from dataclasses import field

from specsim.errors import Contradiction
from specsim.specs.fields import UsdPerHour, record
from specsim.specs.workload import (
    Closed,
    Engine,
    Lengths,
    Load,
    PolicyRules,
    Simulation,
    Targets,
    TraceLoad,
    WorkloadClass,
)


@record
class Demand:
    """What is asked for, and under which rules.

    Attributes:
        load: When requests arrive.
        lengths: How long they are; a trace says it itself.
        classes: Kinds of requests, by name; all are alike if empty.
        targets: What they are promised.
        engine: How requests are put together.
        policies: What policies may choose.
        simulation: How plans are confirmed.
        prices: Of accelerators by their catalogue name, in place of those on their cards [USD/h].
    """

    load: Load
    lengths: Lengths | None = None
    classes: dict[str, WorkloadClass] = field(default_factory=dict, hash=False)
    targets: Targets = Targets()
    engine: Engine = Engine()
    policies: PolicyRules = PolicyRules()
    simulation: Simulation = Simulation()
    prices: dict[str, UsdPerHour] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        of_trace = isinstance(self.load, TraceLoad)
        if of_trace and (self.lengths is not None or self.classes):
            name = "lengths" if self.lengths is not None else "classes"
            raise Contradiction("A trace says itself how long its requests are; leave it out.", name)
        if not of_trace and self.lengths is None:
            without = [name for name, one in self.classes.items() if one.lengths is None]
            if not self.classes or without:
                raise Contradiction("This field is missing: how long prompts and outputs are.", "lengths")
        total = math.fsum(one.request_share for one in self.classes.values())
        if self.classes and abs(total - 1) > 1e-6:
            path = ("classes", next(iter(self.classes)), "request_share")
            raise Contradiction(f"Shares of all classes sum to 1, found {total:.9g}.", *path)
        if isinstance(self.load, Closed) and self.simulation.requests < self.load.users:
            sentence = f"Fewer requests than the {self.load.users} users tell nothing of what they wait for."
            raise Contradiction(sentence, "simulation", "requests")
