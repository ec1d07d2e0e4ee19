"""The feed-forward part of a layer: one block for all tokens, or experts that each token chooses from."""

from __future__ import annotations

from specsim.errors import Contradiction
from specsim.specs.fields import Count, CountOrZero, Flag, Probability, record


@record
class Mlp:
    """One block for all tokens; ``gated`` has two input matrices (SwiGLU and its kin)."""

    intermediate_size: Count
    gated: Flag = True
    bias: Flag = False

    @property
    def up_width(self) -> int:
        """Values that the matrices at its input make."""
        return self.intermediate_size * (2 if self.gated else 1)

    def matrix_parameters(self, hidden_size: int) -> int:
        """Weights of its matrices."""
        return hidden_size * (self.up_width + self.intermediate_size)

    def small_parameters(self, hidden_size: int) -> int:
        """Its biases."""
        return self.bias * (self.up_width + hidden_size)


@record
class Experts:
    """A mixture of gated experts: a router sends every token to ``top_k`` of them.

    Attributes:
        count: Experts that the router chooses from, in one layer.
        top_k: Experts that one token is sent to.
        intermediate_size: Width of one expert.
        shared: Experts that every token visits besides.
        shared_intermediate_size: Width of one of these; that of the others if 0.
        shared_gate: A gate on their output, one row of weights (Qwen3-Next).
        first_dense_layers: Layers at the beginning that have an ``mlp`` in place of experts.
        every: One layer in so many has experts, counted from the first that may; the others have an ``mlp``.
        router_bias: One number for each expert that the router adds.
        bias: Biases in the matrices of the experts.
        correlation: How alike the tokens of one sequence choose: 0 for independent choices, 1 for one choice that
            all of them share.
    """

    count: Count
    top_k: Count
    intermediate_size: Count
    shared: CountOrZero = 0
    shared_intermediate_size: CountOrZero = 0
    shared_gate: Flag = False
    first_dense_layers: CountOrZero = 0
    every: Count = 1
    router_bias: Flag = False
    bias: Flag = False
    correlation: Probability = 0.0

    def __post_init__(self) -> None:
        if self.top_k > self.count:
            raise Contradiction(f"A token cannot be sent to {self.top_k} of {self.count} experts.", "top_k")
        for field in ("shared_intermediate_size", "shared_gate"):
            if getattr(self, field) and not self.shared:
                raise Contradiction("It says nothing without shared experts; give shared, 1 for one of them.", field)

    def layers_among(self, layers: int) -> int:
        """How many of a model's layers have experts."""
        return max(layers - self.first_dense_layers, 0) // self.every

    @property
    def shared_width(self) -> int:
        """Width of all shared experts together."""
        return self.shared * (self.shared_intermediate_size or self.intermediate_size)

    def expert_parameters(self, hidden_size: int) -> int:
        """Weights of the matrices of one expert."""
        return 3 * hidden_size * self.intermediate_size

    def expert_biases(self, hidden_size: int) -> int:
        """Biases of one expert."""
        return self.bias * (2 * self.intermediate_size + hidden_size)

    def shared_parameters(self, hidden_size: int) -> int:
        """Weights of the matrices of all shared experts together, and of their gate."""
        return 3 * hidden_size * self.shared_width + self.shared_gate * hidden_size

    def small_parameters(self, hidden_size: int) -> int:
        """All biases of experts and router."""
        return self.count * (self.expert_biases(hidden_size) + self.router_bias)
