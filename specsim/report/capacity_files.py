"""What may be written beside plans: the policy table, and the event log of a replica."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specsim.report.capacity import PricedPlan, array_of
from specsim.report.table import Table
from specsim.serving.policies import ByTable
from specsim.serving.policy_tables import cells_of, regrets_of
from specsim.serving.replica import Run


def policy_rows(rows: Sequence[PricedPlan]) -> Table:
    """The best draft length by batch and context of every option whose policy is a table, as ranges."""
    found = list[dict[str, object]]()
    for row in rows:
        replica, figures = row.plan.replica, row.plan.figures
        if replica is None or figures is None or not isinstance(replica.policy, ByTable):
            continue
        gamma = replica.choices.gamma.tolist()
        shape = replica.policy.goodput.shape[1:]
        time_at = figures.time_at if figures.time_at.shape == shape else np.ones(shape)
        regrets = regrets_of(replica.policy, time_at)
        for cell in cells_of(replica.policy, time_at):
            found.append({
                "hardware": row.scenario.hardware.name if row.scenario.hardware is not None else "",
                "tensor_parallel": row.scenario.target.tensor_parallel if row.scenario.target is not None else 1,
                "draft": row.plan.option.drafter,
                "batch_from": cell.batch_from,
                "batch_to": cell.batch_to,
                "context_from": cell.context_from,
                "context_to": cell.context_to,
                "gamma": gamma[cell.choice],
                "kept_gammas": " ".join(str(gamma[choice]) for choice in cell.kept),
                "speedup": cell.gain,
                "time_share": cell.time_share,
                "regret_off": regrets.off,
                "regret_fixed": regrets.fixed,
                "best_fixed_gamma": gamma[regrets.fixed_choice],
                "regret_by_batch": regrets.by_batch,
                "regret_by_context": regrets.by_context,
            })  # fmt: skip
    names = list(found[0]) if found else ["hardware"]
    assumed = ("regrets weigh batches and contexts by the time that this load spends there",)
    return Table({name: array_of([one[name] for one in found]) for name in names}, (len(found),), assumed)


def events_table(run: Run) -> Table:
    """When each request came, was taken in, had its first token, lost its blocks, and ended, in the order of time."""
    arrivals = [(time, "arrived", request) for request, time in enumerate(run.requests.arrival_seconds.tolist())]
    events = sorted([*arrivals, *run.events], key=lambda event: event[0])
    time, what, request = zip(*events, strict=True)
    requests = run.requests
    number = np.array(request)
    columns = {
        "time_s": np.array(time), "event": np.array(what, dtype=object), "request": number,
        "prompt_tokens": requests.prompt_tokens[number], "output_tokens": requests.output_tokens[number],
    }  # fmt: skip
    return Table(columns, (len(events),))
