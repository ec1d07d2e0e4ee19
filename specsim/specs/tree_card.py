"""Token trees that others published, by their catalogue name."""

from __future__ import annotations

from typing import Literal

from specsim.specs.card import Card
from specsim.specs.fields import TreeShape, record


@record
class TreeCard(Card):
    """A token tree.

    Attributes:
        tree: Its shape, or as much of it as was published.
    """

    kind: Literal["tree"] = "tree"
    tree: TreeShape
