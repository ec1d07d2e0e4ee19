"""Options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

KINDS = click.Choice(["hardware", "node", "kernels", "model", "head", "drafter", "runtime", "tree", "scenario"])

ACCEPTANCE_HELP = (
    "How often drafts are accepted: rate=0.8 (accepted / examined), conditional=0.8,0.7,0.6 (given that all before "
    "were accepted), survival=0.75,0.45,0.30 (unconditional, what vLLM prints per position), drafted=0.5@3 (accepted "
    "/ drafted at gamma 3, what engines call acceptance rate), length=2.5@3 (tokens per round at gamma 3, bonus "
    "included; of a token tree length=2.34@<5,1,1,1>), ranks=0.6,0.2,0.1 (in a token tree, of the children of rank 1, "
    "2, 3), task=chat (published values), or a YAML file. Left out: published values, as a range."
)

ACCEPTANCE_ALONE_HELP = (
    "How often drafts are accepted: rate=0.8, conditional=0.8,0.7,0.6, survival=0.75,0.45,0.30, drafted=0.5@3, "
    "length=2.5@3, or a YAML file, where stretches of easy and hard text can be described."
)

SERVED = (
    click.option("--acceptance", metavar="FORM", help=ACCEPTANCE_HELP),
    click.option("--runtime", metavar="CARD", help="Serving software; default typical."),
    click.option("--node", metavar="CARD", help="How accelerators are wired; needed for more than 8 of them."),
    click.option("--precision", metavar="NAME", help="Number format of the target's weights; default bf16."),
    click.option("--kv-precision", metavar="NAME", help="Number format of the target's cache; default bf16."),
    click.option("--draft-precision", metavar="NAME", help="Number format of the draft's weights; default bf16."),
)
"""What is served by which software, in which formats: asked of one machine and of a load."""

_QUESTION = (
    click.option("--hardware", metavar="CARD", help="Accelerator: catalogue name, alias or YAML file."),
    click.option("--target", metavar="CARD", help="Target model: catalogue name, alias or YAML file."),
    click.option(
        "--draft",
        metavar="CARD[:ACCEPTANCE]",
        multiple=True,
        help="Draft model, draft head or drafter: catalogue name, alias or YAML file; repeat it to compare several.",
    ),
    *SERVED,
    click.option("--draft-kv-precision", metavar="NAME", help="Number format of the draft's cache; default bf16."),
    click.option("--tensor-parallel", metavar="N", help="Devices that split each layer of the target; default 1."),
    click.option("--pipeline-parallel", metavar="N", help="Stages of the target's layers; default 1."),
    click.option("--expert-parallel", metavar="N", help="Groups of devices that hold whole experts; default 1."),
    click.option(
        "--attention-data-parallel",
        metavar="N",
        help="Groups of devices that run attention for a part of the batch each; default 1.",
    ),
    click.option("--offloaded", metavar="SHARE", help="Share of the target's weights kept on the host; default 0."),
    click.option("--source-tokens", metavar="N", help="Tokens that an encoder has read; default its positions."),
    click.option("--draft-tensor-parallel", metavar="N", help="The same for the draft; default as the target."),
    click.option("--draft-cost-ratio", metavar="C", help="Measured: one draft step / one plain target step."),
    click.option(
        "--verify-cost-ratio",
        metavar="V",
        help="Measured: verifying gamma + 1 tokens / one plain target step.",
    ),
    click.option(
        "--plain-step-ms",
        metavar="MS[@B,S]",
        help="Measured: one plain target step, at batch B and context S or else the first ones; anchors the runtime.",
    ),
    click.option(
        "--draft-operations-ratio",
        metavar="C",
        help="Operations of a draft step / of a plain step; default the cost ratio.",
    ),
    click.option("--repair", metavar="C", help="Extra target call after a rejection, in plain steps; default 0."),
    click.option("--overhead", metavar="C", help="Fixed cost of a round, in plain steps; default 0."),
    click.option(
        "--output-length",
        metavar="N",
        help="Tokens of an output, over which the drafter's reading of the context is spread; default endless.",
    ),
    click.option(
        "--extrapolate",
        is_flag=True,
        default=None,
        help="Let drafts beyond the recorded acceptance be called best.",
    ),
)

_TREE = (
    click.option(
        "--ranks",
        metavar="LIST",
        help=(
            "In place of --acceptance, for token trees: probability that the child of rank 1, 2, 3 is the accepted "
            "one, as in 0.6,0.2,0.1; levels apart by ;, or a YAML file."
        ),
    ),
    click.option(
        "--verification",
        metavar="RULE",
        help=(
            "Rule among several candidates, where ranks come from paired probabilities: multi-step, "
            "without-replacement, naive, top-k or greedy; default multi-step."
        ),
    ),
    click.option(
        "--path-by-path",
        is_flag=True,
        default=None,
        help="Verify each candidate of a tree as a sequence of its own, and not the tree in one pass.",
    ),
)

_OUTPUT = (
    click.option(
        "--format",
        "output_format",
        type=click.Choice(["table", "csv", "json"]),
        help="Default table, or the suffix of --output.",
    ),
    click.option(
        "-o",
        "--output",
        metavar="FILE",
        help="Write to a file, whole or not at all; CSV rows get their provenance beside them.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="No progress and no remarks on stderr."),
)


def _all(options: tuple[Callable[[F], F], ...]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


question_options = _all(_QUESTION)
tree_options = _all(_TREE)
output_options = _all(_OUTPUT)


def question(given: dict[str, Any]) -> dict[str, Any]:
    """The options of a question as the API takes them; draft models that were not given are left out."""
    return {**given, "draft": list(given["draft"]) or None}
