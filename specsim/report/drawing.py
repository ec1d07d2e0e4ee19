"""Token trees drawn: as text for a terminal, and as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from specsim.errors import Fault, InputError, Place, shown
from specsim.report.output import whole_file
from specsim.report.table import Table
from specsim.specs.tree import Tree, read_shape


def tree_text(tree: Tree) -> str:
    """The tree as lines of text: each node by its rank among its siblings, the first child on its parent's line.

    >>> print(tree_text(Tree.of_parents([-1, 0, 0, 0, 1, 1, 4])))
    root ─ 1 ─ 1 ─ 1
         │   └ 2
         ├ 2
         └ 3
    """
    children: list[list[int]] = [[] for _ in range(tree.nodes)]
    for node, parent in enumerate(tree.parents[1:], start=1):
        children[parent].append(node)
    lines: list[str] = []

    def draw(node: int, line: str, before: str) -> None:
        """``line`` ends with the node; ``before`` is what stands before the lines of its further children."""
        for position, child in enumerate(children[node]):
            last = position == len(children[node]) - 1
            start = f"{line} ─" if position == 0 else f"{before}{'└' if last else '├'}"
            here = f"{start} {position + 1}"
            draw(child, here, (before + (" " if last else "│")).ljust(len(here) + 1))
        if not children[node]:
            lines.append(line.rstrip())

    draw(0, "root", " " * 5)
    return "\n".join(lines)


_ACROSS, _DOWN, _RADIUS, _MARGIN = 22, 46, 8, 24


def trees_svg(trees: Sequence[tuple[str, Tree]]) -> str:
    """Trees below each other as one SVG, each below its title; the same text for the same trees."""
    parts, top, right = [], _MARGIN, 0.0
    for title, tree in trees:
        across = _places(tree)
        parts.append(f'<text x="{_MARGIN - _RADIUS}" y="{top}" font-size="13">{escape(title)}</text>')
        first = top + _MARGIN
        points = [
            (_MARGIN + place * _ACROSS, first + depth * _DOWN)
            for place, depth in zip(across, tree.depths.tolist(), strict=True)
        ]
        for node, parent in enumerate(tree.parents[1:], start=1):
            (x1, y1), (x2, y2) = points[parent], points[node]
            parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="#888"/>')
        for (x, y), rank in zip(points, tree.ranks.tolist(), strict=True):
            fill = "#222" if rank == 0 else "#fff"
            parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{_RADIUS}" fill="{fill}" stroke="#222"/>')
            if rank:
                parts.append(f'<text x="{x:g}" y="{y + 3:g}" font-size="9" text-anchor="middle">{rank}</text>')
        right = max(right, *(x for x, _ in points), _MARGIN + 7.0 * len(title))
        top = round(first + tree.depth * _DOWN + 2 * _MARGIN)
    size = f'width="{right + _MARGIN:g}" height="{top:g}" viewBox="0 0 {right + _MARGIN:g} {top:g}"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">\n{body}\n</svg>\n'


def draw_trees(table: Table, file: str) -> None:
    """Draw the trees of some rows, each once, below the first batch and context that it stands for.

    Raises:
        InputError: If the file is no SVG or cannot be written, or no row names a tree.
    """
    place = Place(parameter="picture")
    if Path(file).suffix.lower() != ".svg":
        raise InputError(Fault(f"expected a file that ends in .svg, found {shown(file)}.", place))
    found: dict[str, str] = {}
    for row in table.rows():
        where = f"batch {row['batch_size']}, context {row['context_length']}"
        found.setdefault(str(row["tree"] or ""), f"{where}: {row['nodes']} nodes, {row['speedup']:.3f}x")
    trees = [(title, read_shape(text)) for text, title in found.items() if text]
    if not trees:
        raise InputError(Fault("no row names a tree: there is nothing to draw.", place))
    with whole_file(Path(file), "picture") as out:
        out.write(trees_svg([(title, tree) for title, tree in trees if isinstance(tree, Tree)]))


def _places(tree: Tree) -> list[float]:
    """Where each node stands across: leaves side by side, others over the middle of their children."""
    children: list[list[int]] = [[] for _ in range(tree.nodes)]
    for node, parent in enumerate(tree.parents[1:], start=1):
        children[parent].append(node)
    places, taken = [0.0] * tree.nodes, 0.0

    def place(node: int) -> float:
        nonlocal taken
        if not children[node]:
            places[node], taken = taken, taken + 1
        else:
            found = [place(child) for child in children[node]]
            places[node] = (found[0] + found[-1]) / 2
        return places[node]

    place(0)
    return places
