"""One operating point explained.

``hardware``, ``target``, ``draft`` and ``runtime`` take a catalogue name, an alias, the path of a YAML file, or a
record of ``specsim.specs``; ``acceptance`` takes the forms of the command line, a path, or a record.
"""

from __future__ import annotations

from typing import Any, Unpack

from specsim.catalog.options import DEFAULT_MAX_GAMMA, Options, ask, draft_length
from specsim.catalog.resolve import Resolution
from specsim.errors import Fault, InputError, Place
from specsim.report.explanation import Explanation, explain_point
from specsim.specs.tree import read_shape


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
