"""Token trees: what a shape is worth, and the best shapes of every size."""

from specsim.trees.expected import TreeLengths, fixed_shape, rounds_of_tree, tree_lengths

__all__ = ["TreeLengths", "fixed_shape", "rounds_of_tree", "tree_lengths"]
