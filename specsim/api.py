"""The commands as Python functions, under the same names.

``hardware``, ``target``, ``draft`` and ``runtime`` take a catalogue name, an alias, the path of a YAML file, or a
record of ``specsim.specs``; ``acceptance`` takes the forms of the command line, a path, or a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from specsim import __version__, units
from specsim.acceptance import chain_of
from specsim.acceptance import fit as fitting
from specsim.acceptance import rules as verification
from specsim.accuracy.comparison import Compared
from specsim.accuracy.fit import TYPICAL, Evidence
from specsim.accuracy.summary import GROUPS
from specsim.catalog import calibration, library, measurements
from specsim.catalog.cards import RECORDS
from specsim.catalog.compared import compare
from specsim.catalog.dump import document_of
from specsim.catalog.fitting import FitQuestion, ask_fit
from specsim.catalog.measured import Names
from specsim.catalog.options import (
    DEFAULT_MAX_GAMMA,
    Options,
    ask,
    draft_length,
)
from specsim.catalog.resolve import Resolution, read_scenario
from specsim.catalog.simulation import SimulationQuestion, ask_simulation
from specsim.catalog.strict_yaml import write_yaml
from specsim.catalog.verification import RuleQuestion, ask_pairs, ask_rules
from specsim.errors import Fault, InputError, Place, nearest
from specsim.planning.rounds import plan
from specsim.planning.sweep import Block, blocks, grid_points
from specsim.report import accuracy
from specsim.report.columns import Answer, rows
from specsim.report.explanation import Explanation, explain_point
from specsim.report.fitted import FittedAcceptance, fitted
from specsim.report.notes import notes_of, without_effect
from specsim.report.several_candidates import over_positions, several_candidates
from specsim.report.simulated import Progress, policies_table, rounds_table
from specsim.report.table import Table, joined
from specsim.specs.acceptance import Regimes
from specsim.specs.scenario import Scenario
from specsim.specs.tree import read_shape

__all__ = [
    "Explanation",
    "Options",
    "Table",
    "calibrate",
    "catalog_list",
    "explain",
    "fit",
    "optimal_gamma",
    "resolve",
    "rules",
    "simulate",
    "sweep",
    "validate",
]


def optimal_gamma(
    *,
    batch_size: Any = None,
    context_length: Any = None,
    max_gamma: Any = DEFAULT_MAX_GAMMA,
    all_gammas: bool = False,
    **options: Unpack[Options],
) -> Table:
    """The best draft length for each batch and context; gamma 0 means: do not speculate.

    Args:
        batch_size: Numbers, a list, or text such as ``"1..256*2"``.
        context_length: The same.
        max_gamma: The longest draft that is tried.
        all_gammas: Give every draft length and not only the best.
        options: See ``Options``.

    Raises:
        InputError: With one fault for everything that is wrong.

    >>> table = optimal_gamma(acceptance="rate=0.8", draft_cost_ratio=0.1)
    >>> int(table["gamma"][0]), round(float(table["speedup"][0]), 2)
    (6, 2.47)
    """
    resolution = gamma_question(batch_size, context_length, max_gamma, **options)
    return all_rows(resolution) if all_gammas else best_rows(resolution)


def gamma_question(batch_size: Any, context_length: Any, max_gamma: Any, **options: Unpack[Options]) -> Resolution:
    """The question of ``optimal_gamma``, resolved."""
    return ask(batch_size, context_length, range(draft_length(max_gamma, "max_gamma") + 1), **options)


def best_rows(resolution: Resolution) -> Table:
    """The best draft length of each batch and context; where nothing fits, the row of the shortest one."""
    return joined([best_of(block_table(block)) for block in sweep_blocks(resolution)])


def best_of(table: Table) -> Table:
    nothing_fits = np.array([near is None for near in table.cells("near_best")])
    return table.where(table["best"] | (nothing_fits & (table["gamma"] == table["gamma"].min())))


MOST_ROWS = 2_000_000
"""More rows than this are not held in memory at once; a sweep to CSV has no such limit."""


def all_rows(resolution: Resolution) -> Table:
    """Every row of a resolved scenario, in the order of its grid.

    Raises:
        InputError: If there are more than ``MOST_ROWS``.
    """
    count = sum(grid_points(scenario) for scenario in resolution.scenarios)
    if count > MOST_ROWS:
        raise InputError(
            f"The grid has {count:,} points and at most {MOST_ROWS:,} are held at once: sweep it to a CSV file, or "
            "make the grid coarser."
        )
    return joined([block_table(block) for block in sweep_blocks(resolution)])


def sweep(config: str | Path) -> Table:
    """All rows of the grid of a scenario file.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    return all_rows(scenario_question(config))


def scenario_question(config: str | Path) -> Resolution:
    """The question of a scenario file or of a shipped scenario, resolved."""
    return read_scenario(library.find("scenario", str(config), Place(parameter="config")))


def sweep_blocks(resolution: Resolution) -> Iterator[Block]:
    """The blocks of a resolved scenario.

    Raises:
        InputError: If a measured plain step contradicts the hardware card.
    """
    for scenario, varied, idle in with_idle_fields(resolution):
        yield from blocks(scenario, varied, idle)


def with_idle_fields(
    resolution: Resolution,
) -> Iterator[tuple[Scenario, tuple[tuple[str, object], ...], list[frozenset[str]]]]:
    """Scenarios with their values along the axes, and for each drafter the fields of cards that never count."""
    of_each = [[without_effect(one, draft) for draft in one.drafts] for one in resolution.scenarios]
    # What counts at some value of the axes counts for the sweep.
    idle = [frozenset.intersection(*found) for found in zip(*of_each, strict=True)]
    for scenario, varied in zip(resolution.scenarios, resolution.varied, strict=True):
        yield scenario, varied, idle


def block_table(block: Block) -> Table:
    """The rows of one block of a grid."""
    answer = Answer(block, plan(block.question, block.axes))
    return rows(answer, **notes_of(answer))


def explain(
    *,
    batch_size: Any = 1,
    context_length: Any = 1024,
    gamma: Any = None,
    tree: Any = None,
    **options: Unpack[Options],
) -> Explanation:
    """Where the time of one operating point goes, what the draft costs, and where speculation stops paying.

    Args:
        batch_size: One batch size.
        context_length: One context length.
        gamma: The draft length; the best one up to 8 if left out.
        tree: A token tree in its place: ``"<2,2,1>"``, ``"8/8/64"``, a list of parents, or a name.
        options: See ``Options``.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    gamma, tree = chain_or_tree(gamma, tree)
    return explain_resolved(point_question(batch_size, context_length, gamma, tree, **options), gamma)


def chain_or_tree(gamma: Any, tree: Any) -> tuple[Any, Any]:
    """A tree that is one chain as its draft length, and nothing in place of the tree.

    Raises:
        InputError: If both are given.
    """
    if tree is None:
        return gamma, None
    if gamma is not None:
        raise InputError(Fault("a tree has its own levels: give gamma or a tree, not both.", Place(parameter="tree")))
    try:
        shape = read_shape(tree)
    except ValueError:
        # A name, or a mistake: both are for the catalogue to say.
        return None, tree
    return (shape.depth, None) if shape.is_chain else (None, tree)


def point_question(
    batch_size: Any, context_length: Any, gamma: Any, tree: Any = None, **options: Unpack[Options]
) -> Resolution:
    """The question of ``explain``, resolved: one operating point and one drafter."""
    longest = DEFAULT_MAX_GAMMA if gamma is None else max(draft_length(gamma, "gamma"), DEFAULT_MAX_GAMMA)
    resolution = ask(batch_size, context_length, range(longest + 1), "gamma", tree, **options)
    if len(resolution.scenarios[0].grid.trees) > 1:
        raise InputError(Fault("explain looks at one tree.", Place(parameter="tree")))
    scenario = resolution.scenarios[0]
    for name in ("batch_size", "context_length"):
        if len(getattr(scenario.grid, name)) > 1:
            raise InputError(Fault("explain looks at one operating point: expected one number.", Place(parameter=name)))
    if len(scenario.drafts) > 1:
        place = Place(parameter="draft")
        raise InputError(Fault("explain looks at one draft; compare several with optimal-gamma.", place))
    return resolution


def explain_resolved(resolution: Resolution, gamma: Any) -> Explanation:
    """The explanation of a question of ``explain`` at one draft length, the best one if it is None."""
    return explain_point(resolution.scenarios[0], None if gamma is None else draft_length(gamma, "gamma"))


def resolve(config: str | Path) -> str:
    """A scenario file with every default and card filled in, as YAML that reads back as the same scenario.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    return write_yaml(resolved_document(scenario_question(config)))


def resolved_document(resolution: Resolution) -> dict[str, Any]:
    """The document of a resolution with every field; axes that vary a field stay in its grid as written."""
    document = document_of(resolution.scenarios[0])
    written = resolution.document.get("grid", {})
    document["grid"] |= {
        path: list(v) if isinstance(v, list) else v for path, v in written.items() if path not in document["grid"]
    }
    return document


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
        simulation_question(
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


def simulation_question(**options: Any) -> SimulationQuestion:
    """The question of ``simulate``, checked."""
    return ask_simulation(**options)


def simulated(question: SimulationQuestion, progress: Progress = None) -> Table:
    """The answer to a question of ``simulate``; ``progress`` is told how many rounds were done."""
    acceptance, chain = question.acceptance, chain_of(question.acceptance)
    if question.policies:
        chosen = [(policy.name, policy.value) for policy in question.policies]
        return policies_table(
            chain, acceptance.label, chosen, question.draft_cost_ratio, question.rounds, question.seed, progress
        )
    names = list(acceptance.regimes) if isinstance(acceptance, Regimes) else []
    return rounds_table(
        chain,
        names,
        acceptance.label,
        question.gamma,
        question.rounds,
        question.seed,
        question.output_length,
        question.batch_size,
        progress,
    )


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
        fit_question(
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


def fit_question(**options: Any) -> FitQuestion:
    """The question of ``fit``, with what the files recorded."""
    return ask_fit(**options)


def fitted_acceptance(question: FitQuestion) -> FittedAcceptance:
    """The answer to a question of ``fit``.

    Raises:
        InputError: If what was recorded does not tell what is asked.
    """
    try:
        found = fitting.fit(question.recorded.record, question.regimes, question.replicates, question.seed)
    except fitting.CannotTell as reason:
        raise InputError(Fault(str(reason), Place(parameter="logs"))) from None
    document = document_of(found.acceptance)
    return fitted(found, document, question.recorded.sources, __version__, question.seed)


def fit_yaml(found: FittedAcceptance) -> str:
    """A fitted acceptance as the text of a YAML file."""
    return write_yaml(found.document)


def catalog_list(kind: str | None = None) -> Table:
    """Name, title and aliases of the cards of one kind, or of every kind.

    Raises:
        InputError: If there is no such kind.
    """
    if kind is not None and (not isinstance(kind, str) or kind not in RECORDS):
        raise InputError(Fault(f"unknown kind {kind!r}. {nearest(kind, list(RECORDS))}", Place(parameter="kind")))
    found = []
    for one in [kind] if kind is not None else list(RECORDS):
        for name in library.names(one):
            document = library.read_card(one, name)
            title = document.get("title", document.get("name", "") if one == "scenario" else "")
            found.append((one, name, title, ", ".join(document.get("aliases", ()))))
    columns = zip(("kind", "name", "title", "aliases"), zip(*found, strict=True), strict=True)
    return Table({name: np.array(values, dtype=object) for name, values in columns}, (len(found),))


def validate(
    data: str | Path | None = None,
    *,
    aliases: str | Path | None = None,
    left_out: bool = False,
    by: str = "quantity",
) -> Table:
    """How wrong predictions are, by set-up: a summary of what ``comparisons`` gives row by row.

    Args:
        data: A file in the layout of ``evidence/measurements``; the shipped measurements if None.
        aliases: A YAML mapping of names in the data to names of cards or files.
        left_out: Predict each row by constants fitted without its source.
        by: ``quantity``, ``source``, ``hardware``, ``method``, ``batch`` or ``runtime``.

    Raises:
        InputError: If a file is wrong, or ``by`` is none of these.

    >>> table = validate()
    >>> table["quantity"].tolist()[0]
    'plain_step_ms'
    """
    found, _ = compare_measurements(data, aliases, left_out=left_out, by=by)
    return accuracy.summary_table(found, by)


def compare_measurements(
    data: str | Path | None, aliases: str | Path | None, *, left_out: bool, by: str = "quantity"
) -> tuple[Compared, tuple[str, ...]]:
    """Measurements held against predictions, with remarks about the file.

    Raises:
        InputError: As ``validate``.
    """
    if by not in GROUPS:
        raise InputError(
            Fault(f"unknown {by!r}. {nearest(by, list(GROUPS), list_all_up_to=12)}", Place(parameter="by"))
        )
    rows, remarks = measurements.shipped(), tuple[str, ...]()
    if data is not None:
        rows, remarks = measurements.read_measurements(_file(data, "data"))
    names = Names(measurements.read_aliases(_file(aliases, "aliases")) if aliases is not None else None)
    return compare(rows, names, left_out=left_out), remarks


def comparisons(found: Compared) -> Table:
    """One row for every compared quantity."""
    return accuracy.comparison_table(found)


def calibrate(
    *results: str | Path,
    runtime: str | None = None,
    without: str | None = None,
    aliases: str | Path | None = None,
) -> Table:
    """Constants of a runtime from benchmark results, or of all runtimes from the published measurements.

    Args:
        results: Files of rows, YAML or CSV, as in ``evidence/measurements``.
        runtime: Only this one; with results, the card that what is not fitted comes from.
        without: A source of the published measurements that is left out.
        aliases: A YAML mapping of names in the results to names of cards or files.

    Raises:
        InputError: If a file is wrong, no row of it tells a constant, or a name is unknown.
    """
    if results:
        return calibrate_results(results, runtime=runtime, aliases=aliases)[0]
    return calibrate_evidence(runtime=runtime, without=without)[0]


def calibrate_evidence(
    *, runtime: str | None = None, without: str | None = None, name: str | None = None
) -> tuple[Table, str]:
    """Constants of runtimes from the published measurements, and the card of the one that is asked for."""
    evidence = calibration.published_evidence()
    calibration.check_source(evidence, without)
    known = [calibration.known_runtime(runtime)] if runtime is not None else [TYPICAL, *_fitted_runtimes(evidence)]
    table = accuracy.constants_table(evidence, known, without)
    if runtime is None:
        return table, ""
    told, assumed = accuracy.origins(evidence, known[0], without)
    found = evidence.constants(known[0], without)
    base = calibration.runtime_of(known[0])
    return table, calibration.runtime_card(base, found, name or known[0], told, assumed)


def _fitted_runtimes(evidence: Evidence) -> list[str]:
    return [name for name in library.names("runtime") if name != TYPICAL and evidence.sources(name)]


def calibrate_results(
    results: Sequence[str | Path],
    *,
    runtime: str | None = None,
    aliases: str | Path | None = None,
    name: str | None = None,
) -> tuple[Table, str, tuple[str, ...]]:
    """Constants that results tell, the runtime card with them, and remarks about the files."""
    read = [calibration.read_results(_file(result, "result")) for result in results]
    rows = [row for found, _ in read for row in found]
    names = measurements.read_aliases(_file(aliases, "aliases")) if aliases is not None else {}
    base = calibration.runtime_of(runtime or TYPICAL)
    constants = calibration.fit_results(rows, base, names)
    told = {units.written_name(field): f"fitted to {len(rows)} rows of benchmark results" for field in constants}
    card = calibration.runtime_card(base, constants, name or "my-runtime", told, {})
    return accuracy.fitted_table(constants, len(rows)), card, tuple(note for _, notes in read for note in notes)


def _file(path: str | Path, parameter: str) -> Path:
    """An existing file.

    Raises:
        InputError: If there is none.
    """
    found = Path(path)
    if not found.is_file():
        raise InputError(Fault(f"no such file: {str(path)!r}.", Place(parameter=parameter)))
    return found
