"""When requests arrive: Poisson, in bursts, busy and quiet hours, closed loops, recorded traces."""

from __future__ import annotations

import numpy as np

from specsim.serving.requests import Array, Requests, Sizes, atoms_of, draw_lengths
from specsim.specs.workload import AnyLoad, GammaArrivals, GivenLengths, OnOff, Poisson


def arrival_times(load: Poisson | GammaArrivals | OnOff, number: int, generator: np.random.Generator) -> Array:
    """The first arrivals of a load [s], rising, shape (number,)."""
    match load:
        case Poisson():
            return np.cumsum(generator.exponential(1 / load.requests_per_second, number))
        case GammaArrivals():
            shape = 1 / load.variation**2
            return np.cumsum(generator.gamma(shape, 1 / (shape * load.requests_per_second), number))
        case OnOff():
            return _in_turn(load, number, generator)


def _in_turn(load: OnOff, number: int, generator: np.random.Generator) -> Array:
    """Arrivals of quiet and busy periods in turn: those of rate 1, with time run through the rates."""
    wanted = np.cumsum(generator.exponential(1.0, number))
    off, on = load.off_duration_seconds, load.on_duration_seconds
    lengths, expected = list[float](), 0.0
    while expected <= wanted[-1]:
        pair = (off, on)
        if load.durations == "exponential":
            pair = (generator.exponential(off), generator.exponential(on))
        lengths += pair
        expected += load.off_requests_per_second * pair[0] + load.on_requests_per_second * pair[1]
    ends = np.concatenate([[0.0], np.cumsum(lengths)])
    rates = np.tile([load.off_requests_per_second, load.on_requests_per_second], len(lengths) // 2)
    counted = np.concatenate([[0.0], np.cumsum(rates * np.diff(ends))])
    period = np.searchsorted(counted, wanted, side="right") - 1
    # In a period without arrivals the count stands still; the search passes over it.
    return ends[period] + (wanted - counted[period]) / rates[period]


def closed_starts(users: int, number: int, generator: np.random.Generator) -> Array:
    """First requests of some users, at any time of a first unit; others begin when an answer has come (NaN)."""
    return np.concatenate([np.sort(generator.random(users)), np.full(max(number - users, 0), np.nan)])[:number]


def draw_sizes(
    lengths: tuple[GivenLengths | Requests, ...], shares: Array, number: int, generator: np.random.Generator
) -> Requests:
    """Requests without arrivals yet: the class of each by its share, then its lengths by the law of the class.

    Args:
        lengths: Of each class; recorded requests stand for the law of drawing among them.
        shares: Share of each class among the requests, shape (C,).
        number: How many.
        generator: Source of randomness.
    """
    kind = np.searchsorted(np.cumsum(shares)[:-1], generator.random(number), side="right")
    prompt, output = np.ones(number, dtype=np.int64), np.ones(number, dtype=np.int64)
    for index, law in enumerate(lengths):
        chosen = np.flatnonzero(kind == index)
        if isinstance(law, Requests):
            drawn = generator.integers(0, len(law), len(chosen))
            prompt[chosen], output[chosen] = law.prompt_tokens[drawn], law.output_tokens[drawn]
        else:
            prompt[chosen] = draw_lengths(law.prompt_tokens, len(chosen), generator)
            output[chosen] = draw_lengths(law.output_tokens, len(chosen), generator)
    return Requests(np.zeros(number), prompt, output, kind)


_ACROSS = 24
"""Parts of the outputs of a trace, and parts of the prompts in each, whose means stand for them."""


def _parts_of(trace: Requests) -> tuple[Array, Array, Array]:
    """Prompts and outputs of a trace in parts alike in both, with the share of each; means and totals stay."""
    by_output = np.argsort(trace.output_tokens, kind="stable")
    prompt, output, share = list[float](), list[float](), list[float]()
    for some in np.array_split(by_output, min(_ACROSS, len(trace))):
        by_prompt = some[np.argsort(trace.prompt_tokens[some], kind="stable")]
        for part in np.array_split(by_prompt, min(_ACROSS, len(some))):
            prompt.append(float(trace.prompt_tokens[part].mean()))
            output.append(float(trace.output_tokens[part].mean()))
            share.append(len(part) / len(trace))
    return np.array(prompt), np.array(output), np.array(share)


def sizes_of(lengths: tuple[GivenLengths | Requests, ...], shares: Array) -> Sizes:
    """The same laws as weighted pairs: a lattice of given laws, and parts of a trace."""
    found = []
    for index, (law, share) in enumerate(zip(lengths, shares, strict=True)):
        if share == 0:
            continue
        if isinstance(law, Requests):
            prompt, output, weight = _parts_of(law)
        else:
            one, other = atoms_of(law.prompt_tokens), atoms_of(law.output_tokens)
            number = max(len(one), len(other))
            # Each value of one beside a value of the other, in an order that leaves no correlation.
            prompt = one[np.arange(number) % len(one)]
            output = other[(np.arange(number) * _STRIDE) % len(other)]
            weight = np.full(number, 1.0 / number)
        found.append((prompt, output, weight * share, np.full(len(prompt), index)))
    prompt, output, weight, kind = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Sizes(prompt.astype(float), output.astype(float), weight, kind)


_STRIDE = 39
"""Prime to ``ATOMS`` and near its golden part: (n, 39 n mod 64) is an even lattice."""


def rate_of(load: AnyLoad) -> float | None:
    """Mean arrivals in a second, None where answers or a trace decide."""
    return load.requests_per_second if isinstance(load, Poisson | GammaArrivals | OnOff) else None
