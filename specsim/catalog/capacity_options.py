"""A question about capacity posed by options, as the document that a file would hold."""

from __future__ import annotations

import re
from typing import Any, TypedDict, Unpack

from specsim.catalog import library
from specsim.catalog.capacity import CapacityQuestion, resolve_capacity
from specsim.catalog.located import LocatedDict, LocatedList
from specsim.catalog.options import served_document, split_draft
from specsim.catalog.strict_yaml import plain_value
from specsim.errors import Fault, InputError, Place, shown
from specsim.specs.fields import axis
from specsim.specs.workload import SHARES


class CapacityOptions(TypedDict, total=False):
    """What a question about capacity may say in options; what is left out has its default.

    Attributes:
        hardware: Accelerators to choose among, one or several.
        target: The target model.
        draft: Drafters to choose among; ``NAME:ACCEPTANCE`` gives one its own acceptance.
        acceptance: Acceptance of all drafters that have none of their own.
        runtime: Serving software; ``typical``.
        node: How the accelerators are wired.
        precision: Number format of the target's weights.
        kv_precision: Number format of the target's cache.
        draft_precision: Number format of the draft's weights.
        tensor_parallel: Devices that split each layer: a number, or several to choose among.
        plain_step_ms: Measured: one plain target step [ms], with its batch and context as ``"7.1@1,512"``.
        policy: ``off``, ``fixed``, ``fixed:4``, ``table``, ``adaptive``, one or several; the first, second and fourth.
        max_gamma: The longest draft; 8.
        rate: Requests per second, Poisson; with a trace the rate that it is scaled to.
        users: Users of a closed loop, in place of a rate.
        think_time: Mean pause of users between an answer and the next request, such as ``"20 s"``; none.
        trace: Path of a request trace, in place of a rate.
        speed: By how much a trace runs faster than it was recorded.
        duration: How much of a trace is taken, such as ``"600 s"``.
        prompt: Tokens of a prompt: ``1000``, or ``"1000,6000"`` for a lognormal law by its mean and p99.
        output_length: Tokens of an output, likewise.
        ttft: Target of the time to first token: ``"2 s"`` for its p99, or ``"p50=200 ms"``, several with commas.
        tpot: Target of the time per output token, likewise.
        e2e: Target of the time from arrival to the last token, likewise.
        max_batch_size: Requests in flight at most; 256.
        max_batch_tokens: New tokens of a step at most; 8192.
        prefill: ``chunked`` or ``separate``.
        price: USD an hour of one accelerator, or ``NAME=USD``, one or several.
        requests: Requests that a replica is given in each replication; 2000.
        replications: How often; 4.
        seed: Of all random numbers; 0.
        extrapolate: Whether draft lengths beyond the recorded acceptance may be chosen.
    """

    hardware: Any
    target: Any
    draft: Any
    acceptance: Any
    runtime: Any
    node: Any
    precision: Any
    kv_precision: Any
    draft_precision: Any
    tensor_parallel: Any
    plain_step_ms: Any
    policy: Any
    max_gamma: Any
    rate: Any
    users: Any
    think_time: Any
    trace: Any
    speed: Any
    duration: Any
    prompt: Any
    output_length: Any
    ttft: Any
    tpot: Any
    e2e: Any
    max_batch_size: Any
    max_batch_tokens: Any
    prefill: Any
    price: Any
    requests: Any
    replications: Any
    seed: Any
    extrapolate: Any


def ask_capacity(**options: Unpack[CapacityOptions]) -> CapacityQuestion:
    """The question that some options pose, resolved.

    Raises:
        InputError: With one fault for everything that is wrong; faults name the option.
    """
    unknown = options.keys() - CapacityOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"unexpected option {', '.join(sorted(unknown))}")
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name, what in (("hardware", "an accelerator"), ("target", "a target model")):
        if name not in given:
            _refuse(f"expected {what}.", name)
    document = LocatedDict()
    _put(document, "load", _load(given), _first_of(given, ("trace", "users", "rate")))
    if "trace" not in given:
        _put(document, "lengths", _lengths(given), "prompt" if "prompt" not in given else "output_length")
    else:
        for name in ("prompt", "output_length"):
            if name in given:
                _refuse("a trace says itself how long its requests are; leave this out.", name)
    targets = LocatedDict()
    for option, field in _TARGETS.items():
        if option in given:
            _put(targets, field, _bounds(given[option], option), option)
    _put(document, "targets", targets, "tpot")
    _put_some(document, "engine", given, ("max_batch_size", "max_batch_tokens", "prefill"))
    _put_some(document, "simulation", given, ("requests", "replications", "seed"))
    _put_some(document, "policies", given, ("max_gamma", "extrapolate"))
    if "price" in given:
        _put(document, "prices", _prices(given), "price")
    for name in ("runtime", "node"):
        if name in given:
            _put(document, name, given[name], name)
    _put(document, "target", served_document(given, "target", ("precision", "kv_precision")), "target")
    if "plain_step_ms" in given:
        from specsim.catalog.options import costs_document

        _put(document, "costs", costs_document(given), "plain_step_ms")
    _put(document, "options", _offered(given), "hardware")
    return resolve_capacity(document)


_TARGETS = {"ttft": "time_to_first_token", "tpot": "time_per_output_token", "e2e": "end_to_end"}


def _refuse(message: str, option: str) -> None:
    raise InputError(Fault(message, Place(parameter=option)))


def _put(document: LocatedDict, field: str, value: Any, option: str) -> None:
    document[field], document.places[field] = value, Place(parameter=option)


def _value(value: Any) -> Any:
    if isinstance(value, str):
        found = plain_value(value)
        return value if found is None else found
    return value.tolist() if hasattr(value, "tolist") else value


def _put_some(document: LocatedDict, field: str, given: dict[str, Any], names: tuple[str, ...]) -> None:
    found = LocatedDict()
    for name in names:
        if name in given:
            _put(found, name, _value(given[name]), name)
    if found:
        _put(document, field, found, next(iter(found)))


def _first_of(given: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((name for name in names if name in given), names[-1])


def _load(given: dict[str, Any]) -> LocatedDict:
    load = LocatedDict(place=Place(parameter=_first_of(given, ("trace", "users", "rate"))))
    if "users" in given and ("rate" in given or "trace" in given):
        _refuse("users wait for their answers, and no rate or trace says when they come; leave one of the two out.",
                "users")  # fmt: skip
    if "think_time" in given and "users" not in given:
        _refuse("it says nothing without users.", "think_time")
    if "trace" in given:
        _put(load, "kind", "trace", "trace")
        _put(load, "file", str(given["trace"]), "trace")
        if "rate" in given:
            _put(load, "requests_per_second", _value(given["rate"]), "rate")
        for name in ("speed", "duration"):
            if name in given:
                _put(load, name, _value(given[name]), name)
        return load
    for name in ("speed", "duration"):
        if name in given:
            _refuse("it says nothing without a trace.", name)
    if "users" in given:
        _put(load, "kind", "closed", "users")
        _put(load, "users", _value(given["users"]), "users")
        if "think_time" in given:
            _put(load, "think_time", _value(given["think_time"]), "think_time")
        return load
    if "rate" not in given:
        _refuse("expected requests per second, or a trace, or users.", "rate")
    _put(load, "kind", "poisson", "rate")
    _put(load, "requests_per_second", _value(given["rate"]), "rate")
    return load


def _lengths(given: dict[str, Any]) -> LocatedDict:
    found = LocatedDict()
    for option, field in (("prompt", "prompt_tokens"), ("output_length", "output_tokens")):
        if option not in given:
            _refuse("expected a number of tokens, such as 1000, or mean and p99 as in 1000,6000.", option)
        law, place = LocatedDict(), Place(parameter=option)
        law.place = place
        value = given[option]
        parts = [plain_value(part.strip()) for part in str(value).split(",")]
        if len(parts) == 2:
            law.update(kind="lognormal", mean=parts[0], p99=parts[1])
        else:
            law.update(kind="fixed", tokens=_tokens(value))
        law.places = dict.fromkeys(law, place)
        _put(found, field, law, option)
    return found


def _tokens(value: Any) -> Any:
    """A number of tokens, where k stands for 1024."""
    try:
        found = axis(1).read(_value(value))
    except ValueError:
        return _value(value)
    return found[0] if len(found) == 1 else _value(value)


def _bounds(value: Any, option: str) -> LocatedDict:
    place = Place(parameter=option)
    found = LocatedDict(place=place)
    for part in str(value).split(","):
        of, equals, time = part.partition("=")
        name, text = (of.strip(), time.strip()) if equals else ("p99", part.strip())
        if name not in ("mean", *SHARES):
            known = ", ".join(("mean", *SHARES))
            expected = f"a time such as 40 ms for the p99, or one of {known} with its time, as in p50=30 ms"
            _refuse(f"expected {expected}; found {shown(part.strip())}.", option)
        found[name], found.places[name] = text, place
    return found


_NAMED_PRICE = re.compile(r"([^=]+)=(.+)")
_PLAIN = re.compile(r"[-+.\w]+")


def _prices(given: dict[str, Any]) -> LocatedDict:
    """Prices by hardware: that without a name holds for what has none of its own."""
    place = Place(parameter="price")
    found = LocatedDict(place=place)
    alone = list[str]()
    for entry in _several(given["price"]):
        match = _NAMED_PRICE.fullmatch(str(entry))
        if match is None:
            alone.append(str(entry))
            continue
        name = library.known_name("hardware", match[1].strip()) or match[1].strip()
        if name in found:
            _refuse(f"two prices of {name}; leave one of them out.", "price")
        found[name] = match[2]
    if len(alone) > 1:
        _refuse(f"two prices of every accelerator, {' and '.join(alone[:2])}; name the accelerator, as in "
                f"h100={alone[1]}.", "price")  # fmt: skip
    for card in _several(given["hardware"]) if alone else ():
        found.setdefault(library.known_name("hardware", str(card)) or str(card), alone[0])
    for name, text in found.items():
        # A number alone is meant in USD/h; what has a unit stays, to be judged as it was written.
        found[name], found.places[name] = f"{text} USD/h" if _PLAIN.fullmatch(text.strip()) else text.strip(), place
    return found


def _several(value: Any) -> list[Any]:
    if isinstance(value, str) and "," in value and "=" not in value:
        return [part.strip() for part in value.split(",")]
    return list(value) if isinstance(value, list | tuple) else [value]


def _offered(given: dict[str, Any]) -> LocatedDict:
    found = LocatedDict(place=Place(parameter="hardware"))
    for name in ("hardware", "policy"):
        if name in given:
            place, values = Place(parameter=name), _several(given[name])
            _put(found, name, LocatedList(values, place, [place] * len(values)), name)
    if "tensor_parallel" in given:
        _put(found, "tensor_parallel", _value(given["tensor_parallel"]), "tensor_parallel")
    if "draft" in given:
        place, entries = Place(parameter="draft"), list[Any]()
        for draft in given["draft"] if isinstance(given["draft"], list | tuple) else [given["draft"]]:
            name, acceptance = split_draft(draft)
            if name == "none":
                entries.append(name)
                continue
            entry = served_document({**given, "draft": name}, "draft", ("precision",), "draft_")
            chosen = acceptance if acceptance is not None else given.get("acceptance")
            if chosen is not None:
                _put(entry, "acceptance", str(chosen) if isinstance(chosen, str | int | float) else _value(chosen),
                     "draft" if acceptance is not None else "acceptance")  # fmt: skip
            entries.append(entry)
        _put(found, "draft", LocatedList(entries, place, [place] * len(entries)), "draft")
    elif "acceptance" in given:
        _refuse("it says nothing without a drafter.", "acceptance")
    return found
