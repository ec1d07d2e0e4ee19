"""A question of ``measure``, as written to what is checked: a model, drafters, shapes of drafts, prompts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specsim.catalog.draft_forms import recipe
from specsim.catalog.given import Given
from specsim.catalog.language_models import LanguageModel, language_model
from specsim.catalog.prompts import Prompt, read_prompts
from specsim.errors import Fault, InputError, Place, nearest, shown
from specsim.reference.model_drafter import Candidates
from specsim.reference.recipes import Recipe
from specsim.reference.sampling import Sampling
from specsim.reference.trees import IntArray, chain, depths
from specsim.reference.verification import RULES, Rule, lenient
from specsim.specs.fields import axis, number, whole
from specsim.specs.tree import EXPECTED, Tree, read_shape

RULE_NAMES = ("standard", "naive", "block", "typical", "lenience")
CANDIDATES = ("sampled", "without-replacement", "most-probable")
BY = ("draft", "kind", "sort", "text")
_MOST_GAMMA = 64
MOST_PROMPT_TOKENS = 4096
"""Attention to a prompt holds a number for each pair of its tokens: 4,096 take half a gigabyte in SmolLM2."""
_MOST_NODES = 256


@dataclass(frozen=True, eq=False)
class Shape:
    """What a drafter is asked for: a chain or a tree.

    Attributes:
        label: A draft length, or the tree as it was written.
        parents: As ``reference.trees`` has them.
    """

    label: str
    parents: IntArray

    @property
    def gamma(self) -> int:
        """Most drafts that can be accepted."""
        return int(depths(self.parents).max())

    @property
    def is_chain(self) -> bool:
        """Whether every node has one child."""
        return len(self.parents) == self.gamma + 1


@dataclass(frozen=True, eq=False)
class MeasureQuestion:
    """A question of ``measure`` that can be answered.

    Attributes:
        model: The target.
        drafters: Ways of drafting.
        shapes: Chains or trees.
        sampling: How target and drafts choose tokens.
        rule: Which drafts are accepted.
        rule_name: Its name.
        candidates: How a draft model's candidates are chosen.
        prompts: Texts to continue.
        tokens: Most tokens of each output.
        seed: Of everything random.
        by: What a row stands for beside a drafter and a shape: one of ``BY``.
    """

    model: LanguageModel
    drafters: tuple[Recipe, ...]
    shapes: tuple[Shape, ...]
    sampling: Sampling
    rule: Rule
    rule_name: str
    candidates: Candidates
    prompts: tuple[Prompt, ...]
    tokens: int
    seed: int
    by: str

    @property
    def settings(self) -> dict[str, Any]:
        """What a measured text depends on, besides drafter, shape and prompt."""
        return {
            "model": self.model.name,
            "temperature": self.sampling.temperature,
            "top_k": self.sampling.top_k,
            "top_p": self.sampling.top_p,
            "rule": self.rule_name,
            "candidates": self.candidates,
            "tokens": self.tokens,
            "seed": self.seed,
        }


def ask_measure(**given: Any) -> MeasureQuestion:
    """The question that the options of ``measure`` pose; what is None takes its default.

    Raises:
        InputError: With one fault for each option that is wrong.
    """
    asked = Given(given)
    read = asked.read

    drafters = read("draft", _drafters, None)
    lengths = read("gamma", axis(1, _MOST_GAMMA), None)
    trees = read("tree", _trees, None)
    temperature = read("temperature", number(0, 100), 0.0)
    top_k = read("top_k", whole(1), None)
    top_p = read("top_p", number(0, 1, open_minimum=True), None)
    rule_name = read("rule", one_of(RULE_NAMES), "standard")
    lenience = read("lenience", number(0, 1, open_minimum=True), 0.5)
    candidates = read("candidates", one_of(CANDIDATES), "sampled")
    tokens = read("tokens", whole(1, 100_000), 100)
    seed = read("seed", whole(0, 2**63 - 1), 0)
    most = read("limit", whole(1), None)
    by = read("by", one_of(BY), "draft")
    prompts = read("prompts", lambda source: read_prompts(str(source), Place(parameter="prompts")), None)
    if given.get("draft") is None:
        asked.fault("draft", "expected a drafter, such as lookup or noise:0.1.")
    for name, needs, why in (
        ("lenience", rule_name == "lenience", "it says nothing without the rule lenience"),
        ("top_k", temperature > 0, "it says nothing at temperature 0"),
        ("top_p", temperature > 0, "it says nothing at temperature 0"),
        ("candidates", temperature > 0, "at temperature 0 candidates are the most probable tokens"),
    ):
        if given.get(name) is not None and not needs:
            asked.fault(name, f"{why}.")
    lengths = lengths if lengths is not None else () if trees else (4,)
    chains = tuple(Shape(str(gamma), chain(gamma)) for gamma in lengths)
    # A tree that is a chain is the draft length of as many.
    shapes = tuple({tuple(shape.parents.tolist()): shape for shape in (*(trees or ()), *chains)}.values())
    if rule_name == "block" and not all(shape.is_chain for shape in shapes):
        asked.fault("rule", "block verification judges chains; leave trees out.")
    model = read("model", lambda name: language_model(str(name)), None)
    if model is None and given.get("model") is None:
        model = language_model("toy")
    if model is not None and drafters is not None:
        asked.faults += _misfits(model, drafters)
    asked.check()
    chosen = (read_prompts(None, Place(parameter="prompts")) if prompts is None else prompts)[:most]
    for prompt in chosen:
        if model is not None and len(model.tokens.of_prompt(prompt.text)) > MOST_PROMPT_TOKENS:
            message = f"the prompt {shown(prompt.name)} has more than {MOST_PROMPT_TOKENS:,} tokens."
            raise InputError(Fault(message, Place(parameter="prompts")))
    rule = lenient(lenience) if rule_name == "lenience" else RULES[rule_name]
    name = f"lenience:{lenience:g}" if rule_name == "lenience" else rule_name
    return MeasureQuestion(
        model=model,
        drafters=drafters,
        shapes=shapes,
        sampling=Sampling(temperature, top_k, top_p),
        rule=rule,
        rule_name=name,
        candidates=candidates,
        prompts=chosen,
        tokens=tokens,
        seed=seed,
        by=by,
    )


def _misfits(model: LanguageModel, drafters: tuple[Recipe, ...]) -> list[Fault]:
    layers, found = len(model.transformer.layers), []
    for one in [part for drafter in drafters for part in (*drafter.parts, drafter)]:
        if one.method in ("layers", "skip") and one.values[-1] > layers:
            message = f"{one.label} asks for layer {one.values[-1]:g}, and {model.name} has {layers}."
            found.append(Fault(message, Place(parameter="draft")))
    return found


def one_of(names: tuple[str, ...]) -> Callable[[Any], str]:
    """Reads one of some names."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise ValueError(f"unknown {shown(value)}. {nearest(value, names)}")
        return value

    return read


def _drafters(value: Any) -> tuple[Recipe, ...]:
    written = [value] if isinstance(value, str) else list(value)
    if not written or not all(isinstance(one, str) for one in written):
        raise ValueError(f"expected drafters, such as lookup or noise:0.1, found {shown(value)}.")
    found = tuple(recipe(one) for one in written)
    labels = [one.label for one in found]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice} is given twice.")
    return found


def _trees(value: Any) -> tuple[Shape, ...]:
    if isinstance(value, str | Path):
        value = [str(value)]
    elif isinstance(value, list | tuple) and value and all(isinstance(entry, int) for entry in value):
        value = [",".join(map(str, value))]
    return tuple(_tree(str(one)) for one in value)


_TREE = "a tree such as <2,2,1>, or a list of parents such as -1,0,0,1"


def _tree(text: str) -> Shape:
    try:
        tree = read_shape(text)
    except ValueError as error:
        # Trees that leave nodes to probabilities are not for the engine.
        expected = _TREE if str(error) == EXPECTED else str(error)
        raise ValueError(f"expected {expected}, found {shown(text)}.") from None
    if not isinstance(tree, Tree):
        raise ValueError(f"{shown(text)} leaves nodes to probabilities: expected {_TREE}.")
    if not 1 < tree.nodes <= _MOST_NODES:
        raise ValueError(f"expected 2 to {_MOST_NODES} nodes, found {tree.nodes}.")
    return Shape(tree.label, np.array(tree.parents))
