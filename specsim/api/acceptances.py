"""How many drafts are accepted: by rules of verification, by simulation, and by what was recorded.

``acceptance`` takes the forms of the command line, the path of a YAML file, or a record of ``specsim.specs``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from specsim import __version__
from specsim.acceptance import chain_of, process_of
from specsim.acceptance import fit as fitting
from specsim.acceptance import rules as verification
from specsim.acceptance.policies import LONGEST
from specsim.catalog.dump import document_of
from specsim.catalog.fitting import FitQuestion, ask_fit
from specsim.catalog.simulation import SimulationQuestion, ask_simulation
from specsim.catalog.strict_yaml import write_yaml
from specsim.catalog.verification import RuleQuestion, ask_pairs, ask_rules
from specsim.errors import Fault, InputError, Place
from specsim.report.fitted import FittedAcceptance, fitted
from specsim.report.notes import of_acceptance
from specsim.report.several_candidates import over_positions, several_candidates
from specsim.report.simulated import Progress, policies_table, rounds_table
from specsim.report.table import Table
from specsim.specs.acceptance import Regimes


def rules(
    *,
    target_probs: Any = None,
    draft_probs: Any = None,
    pairs: Any = None,
    rule: Any = None,
    candidates: Any = None,
    lenience: Any = None,
) -> Table:
    """What verification rules accept and emit, exactly, and how far that is from the target.

    Columns: ``rule``; ``verdict``, what is to be held of it on any input; ``exact``, whether on this one its law is the
    target's to 1e-12; ``acceptance`` of the first draft; ``accepted_length``, the expected accepted drafts of all
    positions; ``total_variation`` and ``largest_deviation`` of the law from the target's; ``output_1`` and so on, the
    law itself: of two positions ``output_1_2`` is the probability of the first token and then the second.
    Formulas and their sources: ``specsim.acceptance.rules``.

    Args:
        target_probs: The target's probability of each token: text such as ``"0.6,0.3,0.1"``, or numbers, shape
            (tokens,); of several positions ``"0.6,0.4;0.5,0.5"``, or shape (positions, tokens). Positions do not depend
            on the tokens before them. A sum within 1e-6 of 1 is brought to 1.
        draft_probs: The draft's, same shape.
        pairs: In place of both, the path of a YAML file of kind ``paired``: acceptance by rank is then the mean over
            its positions, with its standard error, and there is no law.
        rule: One name, or several; every rule if left out.
        candidates: How many candidates there are for one position: then the rules are those of
            ``specsim.acceptance.candidates``, ``rank_1``, ``rank_2``, ... are the probabilities that the first, second,
            ... candidate is the accepted one, and bounds have no law.
        lenience: What the rule ``lenience`` multiplies draft probabilities with, above 0 and at most 1; 0.5.

    Raises:
        InputError: With one fault for each option that is wrong.

    >>> table = rules(target_probs=[0.6, 0.4], draft_probs=[0.8, 0.2], rule=["standard", "resample-from-target"])
    >>> table["output_1"].round(12).tolist(), table["verdict"].tolist()
    ([0.6, 0.72], ['lossless', 'wrong'])
    """
    if pairs is not None:
        given = {"target_probs": target_probs, "draft_probs": draft_probs, "lenience": lenience}
        wrong = [name for name, value in given.items() if value is not None]
        if wrong:
            message = f"it stands in place of probabilities of one position: leave {wrong[0]} out."
            raise InputError(Fault(message, Place(parameter="pairs")))
        return _rules_over_pairs(ask_pairs(pairs, rule, candidates))
    question = ask_rules(target_probs, draft_probs, rule, lenience, candidates)
    if question.candidates is not None:
        return several_candidates(question.target_probs[0], question.draft_probs[0], question.candidates,
                                  question.rules, question.assumed)  # fmt: skip
    names, (positions, tokens) = question.rules, question.target_probs.shape
    judged = [
        verification.judge(name, question.target_probs, question.draft_probs, question.lenience) for name in names
    ]
    columns = {
        "rule": np.array(names, dtype=object),
        "verdict": np.array([verification.VERDICTS[name] for name in names], dtype=object),
        "exact": np.array([one.exact for one in judged]),
        "acceptance": np.array([one.acceptance for one in judged]),
        "accepted_length": np.array([one.accepted_length for one in judged]),
        "total_variation": np.array([one.total_variation for one in judged]),
        "largest_deviation": np.array([one.largest_deviation for one in judged]),
    }
    laws = np.array([one.law for one in judged])
    for index, outcome in enumerate(np.ndindex((tokens,) * positions)):
        columns["_".join(["output", *(str(token + 1) for token in outcome)])] = laws[:, index]
    assumed = (*question.assumed, *verification.conventions(names, positions, question.lenience))
    return Table(columns, (len(names),), assumed)


def _rules_over_pairs(question: RuleQuestion) -> Table:
    count = question.candidates or 1
    return over_positions(question.target_probs, question.draft_probs, count, question.rules, question.assumed)


def simulate(
    *,
    acceptance: Any,
    gamma: Any = None,
    rounds: Any = None,
    seed: Any = None,
    output_length: Any = None,
    batch_size: Any = None,
    policy: Any = None,
    draft_cost_ratio: Any = None,
) -> Table:
    """Acceptance by Monte Carlo beside what is exact: rounds, requests and batches, or policies.

    Without a policy, one row for each draft length: ``tokens_per_round`` exactly and ``simulated`` with its
    ``standard_error``; ``independent_tokens_per_round``, what the formula for independent drafts gives at
    ``acceptance_rate``; the law of the accepted drafts, exactly (``accepted_0``, ...) and simulated. With
    ``output_length`` the rounds that a request takes, with ``batch_size`` when the last of a static batch is done.
    With policies, one row for each: ``speedup`` and what it gives away to the best fixed draft length and to an oracle.

    Args:
        acceptance: A form of the command line, the path of a YAML file, or a record.
        gamma: Draft lengths: numbers, or text such as ``"1..6"``; 4.
        rounds: Rounds to simulate at each, at least; 100,000.
        seed: Of the random numbers; 0.
        output_length: Tokens of a request.
        batch_size: Sizes of static batches of such requests.
        policy: ``"fixed"``, ``"fixed:4"``, ``"heuristic"``, ``"confidence:0.4"``, ``"cumulative:0.2"``, ``"belief"``,
            ``"goodput"``, ``"oracle"``, several of them, or ``"all"``.
        draft_cost_ratio: One draft step / one plain target step, for policies.

    Raises:
        InputError: With one fault for each option that is wrong.

    >>> table = simulate(acceptance="rate=0.8", gamma=4, rounds=10000)
    >>> round(float(table["tokens_per_round"][0]), 4), bool(abs(table["errors_apart"][0]) < 4)
    (3.3616, True)
    """
    return simulated(
        ask_simulation(
            acceptance=acceptance,
            gamma=gamma,
            rounds=rounds,
            seed=seed,
            output_length=output_length,
            batch_size=batch_size,
            policy=policy,
            draft_cost_ratio=draft_cost_ratio,
        )
    )


def simulated(question: SimulationQuestion, progress: Progress = None) -> Table:
    """The answer to a question of ``simulate``; ``progress`` is told how many rounds were done."""
    acceptance, chain = question.acceptance, chain_of(question.acceptance)
    label, process = acceptance.label, process_of(acceptance)
    # The simulation is as sure as its rounds are many: it shows smaller differences of shares than plans do.
    assumed = list(of_acceptance(acceptance, apart=1e-4))
    shares = any(what.startswith("the token shares given") for what in assumed)
    if question.policies:
        chosen = [(policy.name, policy.value) for policy in question.policies]
        beyond = process.lengths(np.arange(LONGEST + 1)).extrapolated
        table = policies_table(
            replace(chain, share=chain.settled_share),
            label,
            chosen,
            question.draft_cost_ratio,
            question.rounds,
            question.seed,
            int(np.argmax(beyond)) - 1 if beyond.any() else None,
            progress,
        )
        told = ["policies are compared in text that has settled"] if shares else []
        return replace(table, assumed=(*assumed, *told, *table.assumed))
    names = list(acceptance.regimes) if isinstance(acceptance, Regimes) else []
    lengths = np.array(question.gamma)
    outside = lengths[process.lengths(lengths).extrapolated]
    table = rounds_table(
        chain,
        names,
        label,
        question.gamma,
        question.rounds,
        question.seed,
        question.output_length,
        question.batch_size,
        [f"gamma {outside.min()} and above lies beyond the recorded {label}"] if outside.size else [],
        progress,
    )
    told = ["simulated text settles, so errors_apart also holds what the shares given make of it"] if shares else []
    return replace(table, assumed=(*assumed, *told, *table.assumed))


def simulation_document(question: SimulationQuestion) -> dict[str, Any]:
    """A question of ``simulate`` as a document, for the provenance beside its rows."""
    return {
        "acceptance": document_of(question.acceptance),
        "gamma": list(question.gamma),
        "rounds": question.rounds,
        "output_length": question.output_length,
        "batch_size": list(question.batch_size),
        "policies": [policy.label for policy in question.policies],
        "draft_cost_ratio": question.draft_cost_ratio,
    }


def fit(
    *logs: str | Path,
    before: Any = None,
    after: Any = None,
    source: Any = None,
    gamma: Any = None,
    regimes: Any = None,
    replicates: Any = None,
    seed: Any = None,
) -> FittedAcceptance:
    """The acceptance that logs or recorded counts speak for, with intervals of 90 %.

    Args:
        logs: Paths of JSON lines, CSV files or logs of vLLM, or one form such as ``"survival=0.75,0.6,0.5,0.41"``.
        before: Path of a dump of vLLM's counters at the start.
        after: Of one at the end.
        source: ``auto``, ``counts``, ``csv`` or ``vllm``.
        gamma: Draft length, where the log does not say; more than the positions of rates where only the first ones
            are given.
        regimes: How many regimes; the number of the smallest BIC if left out.
        replicates: Bootstrap replicates; 400.
        seed: Of these; 0.

    Raises:
        InputError: If something is wrong in a file or an option, or what was recorded does not tell what is asked.

    >>> found = fit("survival=0.7568,0.6011,0.4976,0.4113", gamma=8, regimes=2)
    >>> round(float(found.table["tokens_per_round"][7]), 2)
    4.34
    """
    return fitted_acceptance(
        ask_fit(
            logs=logs,
            before=before,
            after=after,
            source=source,
            gamma=gamma,
            regimes=regimes,
            replicates=replicates,
            seed=seed,
        )
    )


def fitted_acceptance(question: FitQuestion) -> FittedAcceptance:
    """The answer to a question of ``fit``.

    Raises:
        InputError: If what was recorded does not tell what is asked.
    """
    try:
        found = fitting.fit(question.recorded.record, question.regimes, question.replicates, question.seed)
    except fitting.CannotTell as reason:
        raise InputError(Fault(str(reason), question.recorded.place)) from None
    document = document_of(found.acceptance)
    return fitted(found, document, question.recorded.sources, __version__, question.seed)


def fit_yaml(found: FittedAcceptance) -> str:
    """A fitted acceptance as the text of a YAML file."""
    return write_yaml(found.document)
