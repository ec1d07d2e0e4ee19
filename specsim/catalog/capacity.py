"""A question about capacity as it is written to what is planned: a demand, and the options to meet it."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from specsim.catalog import library
from specsim.catalog.acceptances import NO_SINGLE_DRAFTS, acceptance_alone
from specsim.catalog.dump import document_of
from specsim.catalog.located import LocatedDict, LocatedList, place_of
from specsim.catalog.resolve import resolve
from specsim.catalog.strict_yaml import plain_value, read_yaml
from specsim.catalog.traces import cut_and_scaled, read_trace
from specsim.catalog.validate import validate, written_fields
from specsim.errors import Fault, InputError, Place, nearest, shown
from specsim.planning.sweep import questions
from specsim.serving.capacity import Task
from specsim.serving.options import NO_DRAFTER, POLICIES, Option, PolicyName
from specsim.serving.requests import Requests
from specsim.serving.workload import Workload
from specsim.specs.acceptance import typical_of
from specsim.specs.capacity import Demand
from specsim.specs.drafter import DraftModel
from specsim.specs.fields import LONGEST_DRAFT, axis, whole
from specsim.specs.ranked import TreeLength
from specsim.specs.scenario import Scenario
from specsim.specs.workload import GivenLengths, TraceLengths, TraceLoad

_OF_SCENARIO = ("target", "runtime", "node", "costs")
_HEAD = ("format", "kind", "name", "options")
_OPTIONS = ("hardware", "tensor_parallel", "draft", "policy")
DEFAULT_POLICIES = ("off", "fixed", "table")


@dataclass(frozen=True, eq=False)
class CapacityQuestion:
    """A question about capacity that can be answered.

    Attributes:
        name: Of the question.
        demand: As it was asked.
        task: What options are held against.
        options: Each hardware, layout, drafter and policy.
        scenarios: The scenario behind each option, for what it assumes.
        document: The question with every card filled in, for the provenance of its rows.
        notes: What was left out of traces, or put in order.
        remarks: How ambiguous input was read.
    """

    name: str
    demand: Demand
    task: Task
    options: tuple[Option, ...]
    scenarios: tuple[Scenario, ...]
    document: dict[str, Any]
    notes: tuple[str, ...]
    remarks: tuple[str, ...]


def read_capacity(path: Path) -> CapacityQuestion:
    """The question in a file.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    return resolve_capacity(read_yaml(path), path.parent)


def resolve_capacity(written: LocatedDict, folder: Path | None = None) -> CapacityQuestion:
    """The question that a document asks; relative paths in it refer to ``folder``.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    library.check_head(written, "capacity")
    remarks: list[str] = []
    demand = _demand(written, folder, remarks)
    workload, notes, hashes = _workload(demand, written, folder)
    options, scenarios, called = list[Option](), list[Scenario](), dict[str, str]()
    for card, scenario, policies in _scenarios(written, demand, folder, remarks):
        if scenario.hardware is not None:
            called[str(card)] = scenario.hardware.name
        question = questions(scenario)[0]
        drafter = question.draft.label
        for policy in policies:
            if not any(_alike(policy, drafter, scenario, other, known)
                       for other, known in zip(options, scenarios, strict=True)):  # fmt: skip
                devices = scenario.target.devices if scenario.target is not None else 1
                apart = (
                    question.draft.devices
                    if isinstance(question.draft, DraftModel) and question.draft.own_device
                    else 0
                )
                off = drafter == NO_DRAFTER
                options.append(Option(question, drafter, PolicyName("off") if off else policy, devices + apart))
                scenarios.append(scenario)
    demand = replace(demand, prices=_named(demand.prices, called, written))
    task = Task(workload, demand.targets, demand.engine, demand.simulation, demand.policies)
    document = {
        "format": 1,
        "kind": "capacity",
        "name": written.get("name", ""),
        **document_of(demand),
        **hashes,
        "options": [
            {**{k: v for k, v in document_of(scenario).items() if k not in ("format", "kind", "name", "grid")},
             "policy": option.policy.label}
            for option, scenario in zip(options, scenarios, strict=True)
        ],
    }  # fmt: skip
    return CapacityQuestion(
        str(written.get("name", "")), demand, task, tuple(options), tuple(scenarios), document, tuple(notes),
        tuple(dict.fromkeys(remarks)),
    )  # fmt: skip


def _alike(policy: PolicyName, drafter: str, scenario: Scenario, other: Option, known: Scenario) -> bool:
    """Whether an option stands for another: without a drafter, all policies are one."""
    same = scenario.hardware == known.hardware and scenario.target == known.target
    return same and drafter == other.drafter == NO_DRAFTER


# --- the demand


def _demand(written: LocatedDict, folder: Path | None, remarks: list[str]) -> Demand:
    own = [field.written for field in written_fields(Demand)]
    known = (*_HEAD, *_OF_SCENARIO, *own)
    faults = [
        Fault(
            f"unknown field. {nearest(key, known) or nearest(key, known, list_all_up_to=40)}",
            *place_of(written, (key,)),
        )
        for key in written
        if key not in known
    ]
    name = written.get("name", "")
    if not isinstance(name, str):
        faults.append(Fault(f"expected text, found {shown(name)}.", *place_of(written, ("name",))))
    document = LocatedDict({k: v for k, v in written.items() if k in own}, written.place, written.places)
    if "lengths" in document:
        document["lengths"] = _spelled_lengths(document["lengths"])
    classes = document.get("classes")
    if isinstance(classes, LocatedDict):
        filled = classes.copy()
        for key, one in classes.items():
            if isinstance(one, LocatedDict):
                entry = one.copy()
                if "lengths" in entry:
                    entry["lengths"] = _spelled_lengths(entry["lengths"])
                if "acceptance" in entry:
                    place = entry.places.get("acceptance", entry.place)
                    try:
                        entry["acceptance"] = acceptance_alone(entry["acceptance"], place, folder, remarks)
                    except InputError as error:
                        faults.extend(error.faults)
                filled[key] = entry
        document["classes"] = filled
    try:
        demand = validate(Demand, document)
    except InputError as error:
        raise InputError([*faults, *error.faults]) from None
    if faults:
        raise InputError(faults)
    return demand


def _named(prices: dict[str, float], called: dict[str, str], written: LocatedDict) -> dict[str, float]:
    """Prices by the names of the accelerators that are chosen among; ``called`` has these as they were asked for."""
    found, faults = dict[str, float](), list[Fault]()
    for key, price in prices.items():
        name = called.get(key) or library.known_name("hardware", key) or key
        place = place_of(written, ("prices", key))
        if name not in called.values():
            among = nearest(key, [*dict.fromkeys(called.values())], list_all_up_to=12)
            faults.append(Fault(f"no option runs on {shown(key)}, so that its price says nothing. {among}", *place))
        elif name in found:
            faults.append(Fault(f"a second price of {name}; leave one of the two out.", *place))
        found[name] = price
    if faults:
        raise InputError(faults)
    return found


def _spelled_lengths(lengths: Any) -> Any:
    """Lengths whose laws are spelled out: a number is a fixed length."""
    if not isinstance(lengths, LocatedDict):
        return lengths
    found = lengths.copy()
    for field in ("prompt_tokens", "output_tokens"):
        value = lengths.get(field)
        if isinstance(value, int) and not isinstance(value, bool):
            place = lengths.places.get(field, lengths.place)
            found[field] = LocatedDict({"kind": "fixed", "tokens": value}, place, {"kind": place, "tokens": place})
    return found


def _workload(
    demand: Demand, written: LocatedDict, folder: Path | None
) -> tuple[Workload, list[str], dict[str, dict[str, str]]]:
    notes, hashes = list[str](), dict[str, str]()

    def read(file: str, layout: str, path: tuple[str, ...]) -> Requests:
        place, field = place_of(written, (*path, "file"))
        at = (folder or Path()) / file
        if not at.is_file():
            wrong = "expected a file, found the folder" if at.is_dir() else "no such file:"
            raise InputError(Fault(f"{wrong} {shown(file, 200)}.", place, field))
        found = read_trace(at, layout, place, field)
        notes.extend(found.notes)
        hashes[file] = hashlib.sha256(at.read_bytes()).hexdigest()
        return found.requests

    trace, load = None, demand.load
    if isinstance(load, TraceLoad):
        whole_trace = read(load.file, load.layout, ("load",))
        trace = cut_and_scaled(whole_trace, load, *place_of(written, ("load",)))

    def lengths_of(lengths: GivenLengths | TraceLengths | None, path: tuple[str, ...]) -> GivenLengths | Requests:
        if lengths is None:
            # A trace has its own; a class without lengths those of all, which the demand has checked.
            return _NO_LENGTHS if demand.lengths is None else lengths_of(demand.lengths, ("lengths",))
        return read(lengths.file, lengths.layout, path) if isinstance(lengths, TraceLengths) else lengths

    if demand.classes:
        each = demand.classes
        lengths = tuple(lengths_of(one.lengths, ("classes", name, "lengths")) for name, one in each.items())
        shares, acceptances = [one.request_share for one in each.values()], [one.acceptance for one in each.values()]
    else:
        lengths, shares, acceptances = (lengths_of(demand.lengths, ("lengths",)),), [1.0], [None]
    workload = Workload(load, trace, np.array(shares), lengths, tuple(acceptances))
    return workload, list(dict.fromkeys(notes)), {"traces_sha256": hashes} if hashes else {}


_NO_LENGTHS = Requests(np.zeros(1), np.ones(1, dtype=np.int64), np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64))


# --- what is on offer


def _scenarios(
    written: LocatedDict, demand: Demand, folder: Path | None, remarks: list[str]
) -> Iterator[tuple[Any, Scenario, tuple[PolicyName, ...]]]:
    """Every hardware as it was asked for, with each layout and drafter on it as a scenario, and its policies."""
    options = written.get("options")
    if not isinstance(options, LocatedDict):
        message = "expected a mapping with hardware, and tensor_parallel, draft and policy if wanted"
        found = "this field is missing: " if options is None else ""
        raise InputError(Fault(f"{found}{message}.", *place_of(written, ("options",))))
    unknown = [key for key in options if key not in _OPTIONS]
    if unknown:
        raise InputError([
            Fault(f"unknown field. {nearest(key, _OPTIONS)}", *place_of(written, ("options", key))) for key in unknown
        ])  # fmt: skip
    if "target" not in written:
        raise InputError(Fault("this field is missing.", *place_of(written, ("target",))))
    costs = written.get("costs")
    if isinstance(costs, LocatedDict) and "plain_step" in costs and "plain_step_at" not in costs:
        message = "a load has no batch and context of its own; say at which it was measured, as in 7.1@1,512."
        raise InputError(Fault(message, *place_of(written, ("costs", "plain_step"))))
    policies = tuple(_policies(written, options, demand))
    drafts = _entries(options, "draft") or [(NO_DRAFTER, options.place, "options.draft")]
    if any(policy.name == "off" for policy in policies) and all(draft != NO_DRAFTER for draft, _, _ in drafts):
        drafts.insert(0, (NO_DRAFTER, options.place, "options.draft"))
    with_drafts = tuple(policy for policy in policies if policy.name != "off")
    hardware = _entries(options, "hardware")
    if not hardware:
        raise InputError(Fault("this field is missing.", *place_of(written, ("options", "hardware"))))
    for (card, card_at, _), parallel, (draft, draft_at, draft_path) in itertools.product(
        hardware, _parallels(written, options), drafts
    ):
        scenario = _scenario(written, card, card_at, parallel, draft, draft_at, draft_path, demand, folder, remarks)
        _check_modelled(scenario, written)
        if draft == NO_DRAFTER or with_drafts:
            yield card, scenario, (PolicyName("off"),) if draft == NO_DRAFTER else with_drafts


def _entries(options: LocatedDict, field: str) -> list[tuple[Any, Place, str]]:
    """What one field offers, each with its place and path: a list, or one alone."""
    value = options.get(field)
    if value is None:
        return []
    if isinstance(value, LocatedList):
        return [
            (entry, value.places[i] if i < len(value.places) else value.place, f"options.{field}[{i}]")
            for i, entry in enumerate(value)
        ]
    return [(value, options.places.get(field, options.place), f"options.{field}")]


def _parallels(written: LocatedDict, options: LocatedDict) -> list[tuple[int, Place] | None]:
    if "tensor_parallel" not in options:
        return [None]
    place, path = place_of(written, ("options", "tensor_parallel"))
    try:
        found = axis(1, 4096).read(options["tensor_parallel"])
    except ValueError as error:
        message = f"expected {error}, found {shown(options['tensor_parallel'])}."
        raise InputError(Fault(message, place, path)) from None
    return [(number, place) for number in found]


def _policies(written: LocatedDict, options: LocatedDict, demand: Demand) -> Iterator[PolicyName]:
    entries = _entries(options, "policy") or [(name, Place(), "") for name in DEFAULT_POLICIES]
    drafted = any(draft != NO_DRAFTER for draft, _, _ in _entries(options, "draft"))
    longest = demand.policies.max_gamma if "max_gamma" in written.get("policies", ()) else LONGEST_DRAFT
    for entry, place, path in entries:
        name, colon, number = entry.partition(":") if isinstance(entry, str) else ("", "", "")
        if name not in POLICIES:
            raise InputError(Fault(f"unknown policy {shown(entry)}. {nearest(entry, POLICIES)}", place, path))
        gamma = None
        try:
            if colon:
                gamma = whole(0, LONGEST_DRAFT).read(plain_value(number))
            if colon and name != "fixed":
                raise ValueError
        except ValueError:
            message = f"only fixed takes a draft length, as in fixed:4; found {shown(entry)}."
            raise InputError(Fault(message, place, path)) from None
        if path and name != "off" and not drafted:
            raise InputError(Fault(f"{shown(entry)} says nothing without a drafter.", place, path))
        if gamma is not None and gamma > longest:
            raise InputError(Fault(f"{entry} is longer than the longest draft, max_gamma {longest}.", place, path))
        yield PolicyName(name, gamma)


def _scenario(
    written: LocatedDict,
    card: Any,
    card_at: Place,
    parallel: tuple[int, Place] | None,
    draft: Any,
    draft_at: Place,
    draft_path: str,
    demand: Demand,
    folder: Path | None,
    remarks: list[str],
) -> Scenario:
    document = LocatedDict({}, written.place)

    def put(field: str, value: Any, place: Place) -> None:
        document[field], document.places[field] = value, place

    put("hardware", card, card_at)
    for field in _OF_SCENARIO:
        if field in written:
            put(field, written[field], written.places.get(field, written.place))
    if parallel is not None:
        target = document["target"]
        place = document.places["target"]
        served = (
            target.copy()
            if isinstance(target, LocatedDict)
            else LocatedDict({"model": target}, place, {"model": place})
        )
        served["tensor_parallel"], served.places["tensor_parallel"] = parallel
        document["target"] = served
    entry = draft
    if draft == NO_DRAFTER:
        entry = LocatedDict({"method": "lookup", "hit_rate": 0.0, "name": NO_DRAFTER,
                             "acceptance": LocatedDict({"kind": "independent", "rate": 0.0})}, draft_at)  # fmt: skip
    put("drafts", LocatedList([entry], draft_at, [draft_at], alone=draft_path), draft_at)
    grid = LocatedDict({"batch_size": 1, "context_length": 0, "gamma": 0}, written.place)
    put("grid", grid, written.place)
    resolution = resolve(document, folder)
    remarks.extend(resolution.remarks)
    return resolution.scenarios[0]


def _check_modelled(scenario: Scenario, written: LocatedDict) -> None:
    draft = scenario.drafts[0]
    if scenario.target is not None and scenario.target.model.encoder is not None:
        message = f"{scenario.target.model.name} has an encoder: how it is served under a load is not modelled."
        raise InputError(Fault(message, *place_of(written, ("target",))))
    if isinstance(draft, DraftModel) and draft.schedule == "pearl":
        message = "the schedule pearl is not modelled under a load; optimal-gamma has it."
        raise InputError(Fault(message, *place_of(written, ("options", "draft"))))
    if isinstance(typical_of(draft.acceptance), TreeLength):
        raise InputError(Fault(NO_SINGLE_DRAFTS, *place_of(written, ("options", "draft"))))


def without_simulation(question: CapacityQuestion) -> CapacityQuestion:
    """The same question, answered without simulation."""
    return replace(question, task=replace(question.task, quick_only=True))
