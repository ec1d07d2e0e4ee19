"""Token trees: which candidates hang below which, how they are written, and who may look at whom.

The root is the last token that is certain; every other node is a drafted candidate for the position after its parent.
Nodes are numbered breadth first, siblings in the order of their ranks: a parent comes before its children, and node 0
is the root.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

MOST_NODES = 4096
"""Nodes of the largest tree that is read."""

EXPECTED = (
    "a tree such as <2,2,1>, 8/8/64 (levels/width/verified nodes), 10+28+23+2 (nodes of each level), or its parents "
    "[-1,0,0,1]"
)

_EXPANSION = re.compile(r"<\s*([0-9]{1,4}(?:\s*,\s*[0-9]{1,4})*)\s*>")
_TRIPLE = re.compile(r"([0-9]{1,6})/([0-9]{1,6})/([0-9]{1,6})")
_COUNTS = re.compile(r"[0-9]{1,4}(\s*\+\s*[0-9]{1,4})+")
_PARENTS = re.compile(r"\[\s*(-?[0-9]{1,6}(?:\s*,\s*-?[0-9]{1,6})*)\s*\]|(-1(?:\s*,\s*-?[0-9]{1,6})+)")


@dataclass(frozen=True)
class Tree:
    """A token tree of fixed shape.

    Attributes:
        parents: Parent of every node, -1 for the root, which comes first.
        name: What it is called, if it has a name.
    """

    parents: tuple[int, ...]
    name: str = field(default="", compare=False)

    @classmethod
    def of_parents(cls, parents: Sequence[int], name: str = "") -> Tree:
        """The tree of a list of parents in any order; siblings rank in the order in which they stand there.

        Raises:
            ValueError: With what was expected, if it is no tree.
        """
        count = len(parents)
        roots = [node for node, parent in enumerate(parents) if parent == -1]
        if len(roots) != 1:
            found = "none" if not roots else f"nodes {', '.join(map(str, roots))}"
            raise ValueError(f"a tree with one root, whose parent is -1; {found} here")
        if count > MOST_NODES:
            raise ValueError(f"a tree of at most {MOST_NODES:,} nodes")
        children: list[list[int]] = [[] for _ in range(count)]
        for node, parent in enumerate(parents):
            if not -1 <= parent < count:
                raise ValueError(f"parents that are nodes from 0 to {count - 1}; node {node} has {parent}")
            if parent >= 0:
                children[parent].append(node)
        order = [roots[0]]
        for node in order:
            order.extend(children[node])
        if len(order) < count:
            lost = min(set(range(count)) - set(order))
            raise ValueError(f"a tree without cycles; node {lost} cannot be reached from the root")
        place = {node: index for index, node in enumerate(order)}
        return cls(tuple(-1 if parents[node] == -1 else place[parents[node]] for node in order), name)

    @classmethod
    def of_paths(cls, paths: Iterable[Sequence[int]], name: str = "") -> Tree:
        """The tree of the ranks on the way to each node, counted from 0, as in ``[[0], [1], [0, 0]]`` (Medusa, EAGLE).

        Raises:
            ValueError: With what was expected, if a path is given twice or what comes before it is missing.
        """
        wanted = [tuple(path) for path in paths]
        twice = [path for path, count in Counter(wanted).items() if count > 1]
        if twice:
            raise ValueError(f"each sibling once; {list(twice[0])} is there twice")
        known = {(), *wanted}
        for path in wanted:
            if not path or min(path) < 0:
                raise ValueError(f"ranks from 0 upward on every path, found {list(path)}")
            before = path[:-1] if path[:-1] not in known else (*path[:-1], path[-1] - 1) if path[-1] else ()
            if before not in known:
                raise ValueError(f"parents and better ranks beside every path; {list(path)} is without {list(before)}")
        order = sorted(known, key=lambda path: (len(path), path))
        place = {path: index for index, path in enumerate(order)}
        return cls.of_parents([-1, *(place[path[:-1]] for path in order[1:])], name)

    @classmethod
    def expansion(cls, widths: Sequence[int], name: str = "") -> Tree:
        """The tree in which every node of level i has ``widths[i]`` children: ``<2,2,1>``.

        Raises:
            ValueError: With what was expected, if a width is 0 or the tree too large.
        """
        parents, level = [-1], [0]
        for width in widths:
            if width < 1:
                raise ValueError("a tree such as <2,2,1>, with 1 or more children at every level")
            if len(parents) + width * len(level) > MOST_NODES:
                raise ValueError(f"a tree of at most {MOST_NODES:,} nodes")
            first = len(parents)
            parents += [node for node in level for _ in range(width)]
            level = list(range(first, len(parents)))
        return cls(tuple(parents), name)

    @classmethod
    def chain(cls, gamma: int) -> Tree:
        """Gamma tokens one after another."""
        return cls(tuple(range(-1, gamma)))

    @cached_property
    def nodes(self) -> int:
        """Verified tokens, the root included."""
        return len(self.parents)

    @cached_property
    def depths(self) -> NDArray[np.int64]:
        """Drafted tokens on the way to each node, and its position after the root, shape (nodes,)."""
        depths = [0]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        return np.array(depths)

    @property
    def depth(self) -> int:
        """Levels below the root, and draft steps that drafting level by level takes."""
        return int(self.depths[-1])

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """Rank of each node among its siblings, counted from 1; 0 for the root, shape (nodes,)."""
        # Breadth first, parents never fall: siblings stand side by side.
        parents = np.array(self.parents[1:], dtype=np.int64)
        first = np.searchsorted(parents, parents)
        return np.concatenate([[0], np.arange(len(parents)) - first + 1])

    @cached_property
    def children(self) -> NDArray[np.int64]:
        """Number of children of each node, shape (nodes,)."""
        return np.bincount(np.array(self.parents[1:], dtype=np.int64), minlength=self.nodes)

    @cached_property
    def level_counts(self) -> tuple[int, ...]:
        """Nodes of each level below the root."""
        return tuple(np.bincount(self.depths)[1:].tolist())

    @cached_property
    def step_tokens(self) -> tuple[int, ...]:
        """Tokens that each draft step works on: the nodes of the level before that have children."""
        return tuple(np.bincount(self.depths[self.children > 0], minlength=self.depth).tolist()) if self.depth else ()

    @cached_property
    def leaves(self) -> NDArray[np.bool_]:
        """Whether a node has no children, shape (nodes,)."""
        return self.children == 0

    @property
    def paths(self) -> int:
        """Candidates: ways from the root to a leaf."""
        return int(self.leaves.sum())

    @property
    def path_tokens(self) -> int:
        """Tokens that are verified where every candidate is a sequence of its own, the root in each."""
        return int((self.depths[self.leaves] + 1).sum())

    @property
    def is_chain(self) -> bool:
        """Whether it is no more than one candidate."""
        return self.depth + 1 == self.nodes

    @cached_property
    def ancestors(self) -> NDArray[np.bool_]:
        """Whom each node looks at: itself and its ancestors, shape (nodes, nodes), a row for each node."""
        mask = np.eye(self.nodes, dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                mask[node] |= mask[parent]
        return mask

    @cached_property
    def rank_paths(self) -> tuple[tuple[int, ...], ...]:
        """Ranks on the way to each node, counted from 1."""
        found: list[tuple[int, ...]] = [()]
        for parent, rank in zip(self.parents[1:], self.ranks[1:].tolist(), strict=True):
            found.append((*found[parent], rank))
        return tuple(found)

    @cached_property
    def widths(self) -> tuple[int, ...] | None:
        """Children at each level where all nodes of a level have as many, None otherwise."""
        by_level = [set(self.children[self.depths == level].tolist()) for level in range(self.depth)]
        return tuple(next(iter(one)) for one in by_level) if all(len(one) == 1 for one in by_level) else None

    @property
    def text(self) -> str:
        """How it is written: ``<2,2,1>`` where that says all, else its parents."""
        widths = self.widths
        if widths is not None:
            return f"<{','.join(map(str, widths))}>"
        return f"[{','.join(map(str, self.parents))}]"

    @property
    def label(self) -> str:
        """What rows call it: its name if it has one."""
        return self.name or self.text


@dataclass(frozen=True)
class DynamicTree:
    """A tree that is chosen anew in every round from the draft's own confidence (EAGLE-2): levels/width/nodes.

    Every level expands its ``width`` most probable nodes, each by as many candidates; of all that was drafted, the most
    probable ``nodes`` - 1 are verified.

    Attributes:
        depth: Levels below the root, each a draft step.
        width: Nodes of a level that are expanded, and candidates of each.
        nodes: Verified tokens, the root included.
        name: What it is called, if it has a name.
    """

    depth: int
    width: int
    nodes: int
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if min(self.depth, self.width) < 1 or self.nodes < 2:
            raise ValueError("levels and width of at least 1, and 2 or more verified nodes, as in 8/8/64")
        most = 1 + self.width + (self.depth - 1) * self.width**2
        if self.nodes > min(most, MOST_NODES):
            drafted = f"{self.depth} levels of width {self.width} draft {most - 1:,}"
            raise ValueError(f"at most {min(most, MOST_NODES):,} verified nodes, the root included, since {drafted}")

    @property
    def step_tokens(self) -> tuple[int, ...]:
        """Tokens that each draft step works on: the root, then the expanded nodes of a level."""
        return (1, *[self.width] * (self.depth - 1))

    @property
    def is_chain(self) -> bool:
        """Whether it is no more than one candidate."""
        return self.width == 1 and self.nodes == self.depth + 1

    @property
    def text(self) -> str:
        """How it is written."""
        return f"{self.depth}/{self.width}/{self.nodes}"

    @property
    def label(self) -> str:
        """What rows call it: its name if it has one."""
        return self.name or self.text


@dataclass(frozen=True)
class CountedTree:
    """A tree of which only the number of nodes of each level is known, as publications often tell it: ``10+28+23+2``.

    Which node hangs where follows from the acceptance: each level is filled with its most probable nodes.

    Attributes:
        level_counts: Nodes of each level below the root.
        name: What it is called, if it has a name.
    """

    level_counts: tuple[int, ...]
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.level_counts or min(self.level_counts) < 1:
            raise ValueError("1 or more nodes at every level, as in 10+28+23+2")
        if self.nodes > MOST_NODES:
            raise ValueError(f"a tree of at most {MOST_NODES:,} nodes")

    @property
    def depth(self) -> int:
        """Levels below the root."""
        return len(self.level_counts)

    @property
    def nodes(self) -> int:
        """Verified tokens, the root included."""
        return 1 + sum(self.level_counts)

    @property
    def step_tokens(self) -> tuple[int, ...]:
        """Tokens that each draft step works on, at most: the whole level before."""
        return (1, *self.level_counts[:-1])

    @property
    def is_chain(self) -> bool:
        """Whether it is no more than one candidate."""
        return max(self.level_counts) == 1

    @property
    def text(self) -> str:
        """How it is written."""
        return "+".join(map(str, self.level_counts)) if self.depth > 1 else f"<{self.level_counts[0]}>"

    @property
    def label(self) -> str:
        """What rows call it: its name if it has one."""
        return self.name or self.text


Shape = Tree | DynamicTree | CountedTree


def read_shape(value: object) -> Shape:
    """A tree as it is written: text, a list of parents, a list of paths, or one of these under ``tree`` with a name.

    Raises:
        ValueError: With what was expected.
    """
    if isinstance(value, dict) and set(value) == {"name", "tree"} and isinstance(value["name"], str):
        return replace(read_shape(value["tree"]), name=value["name"])
    if isinstance(value, list | tuple) and value:
        if all(type(entry) is int for entry in value):
            return Tree.of_parents(value)
        if all(isinstance(path, list | tuple) and all(type(rank) is int for rank in path) for path in value):
            return Tree.of_paths(value)
    if not isinstance(value, str):
        raise ValueError(EXPECTED)
    text = value.strip()
    if found := _EXPANSION.fullmatch(text):
        return Tree.expansion([int(width) for width in found[1].split(",")])
    if found := _TRIPLE.fullmatch(text):
        return DynamicTree(int(found[1]), int(found[2]), int(found[3]))
    if _COUNTS.fullmatch(text):
        return CountedTree(tuple(int(count) for count in text.split("+")))
    if found := _PARENTS.fullmatch(text):
        return Tree.of_parents([int(parent) for parent in (found[1] or found[2]).split(",")])
    raise ValueError(EXPECTED)


def written_shape(shape: Shape) -> object:
    """How a tree is written, with its name if it has one; ``read_shape`` gives it back."""
    return {"name": shape.name, "tree": shape.text} if shape.name else shape.text


def merged(sequences: Iterable[Sequence[Hashable]]) -> tuple[Tree, tuple[Hashable, ...]]:
    """The tree that holds all of some drafted sequences, and the token of each node but the root.

    Where sequences begin with the same tokens they share nodes (merge-based trees of SpecInfer, Miao et al. 2024);
    siblings rank in the order in which they were drafted.
    """
    parents, tokens, below = [-1], [], [dict[Hashable, int]()]
    for sequence in sequences:
        node = 0
        for token in sequence:
            if token not in below[node]:
                below[node][token] = len(parents)
                parents.append(node)
                tokens.append(token)
                below.append({})
            node = below[node][token]
    order = [0]
    for node in order:
        order.extend(below[node].values())
    return Tree.of_parents(parents), tuple(tokens[node - 1] for node in order[1:])
