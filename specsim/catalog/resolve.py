"""A scenario as written to scenarios as planned: names become cards, shorthand and defaults are filled in.

What people write is short; what the core receives has every field. ``resolve`` is the one step between the two.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specsim.catalog import library
from specsim.catalog.axes import check_drafts, only_grid_axes, path_axes, set_field
from specsim.catalog.dump import document_of
from specsim.catalog.fill import Filler
from specsim.catalog.located import LocatedDict, LocatedList, place_of
from specsim.catalog.plausible import check_hardware, check_node
from specsim.catalog.strict_yaml import read_yaml
from specsim.catalog.validate import validate
from specsim.errors import Fault, InputError, shown
from specsim.planning.sweep import questions
from specsim.specs.hardware import Hardware
from specsim.specs.node import Node
from specsim.specs.scenario import Scenario


@dataclass(frozen=True)
class Resolution:
    """What became of a written scenario.

    Attributes:
        scenarios: One for every combination of the axes that are paths into the document.
        varied: The paths of those axes with their values, for each scenario.
        document: The document of the first of them, with the axes as they were written.
        remarks: How ambiguous input was read, for the user to see.
    """

    scenarios: tuple[Scenario, ...]
    varied: tuple[tuple[tuple[str, object], ...], ...]
    document: LocatedDict
    remarks: tuple[str, ...]


def read_scenario(path: Path) -> Resolution:
    """Resolve the scenario in a file.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    return resolve(read_yaml(path), path.parent)


def resolve(written: LocatedDict, folder: Path | None = None) -> Resolution:
    """Resolve a written scenario; relative paths in it refer to ``folder``.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    library.check_head(written, "sweep")
    remarks: list[str] = []
    paths = path_axes(written)
    filler = Filler(folder, remarks, inherit=not paths)
    filled = filler.fill(written)
    for path in paths:
        check_drafts(filled, path)
    scenarios, varied = [], []
    for values in itertools.product(*paths.values()):
        combination = _thaw(filled)
        if isinstance(combination.get("grid"), dict):
            combination["grid"] = only_grid_axes(combination["grid"])
        for path, value in zip(paths, values, strict=True):
            set_field(combination, path, value, place_of(filled, ("grid", path))[0])
        try:
            scenario = _checked(Filler(folder, remarks).fill(combination), what_if=tuple(paths))
        except InputError as error:
            raise _at_its_axis(error, filled, dict(zip(paths, values, strict=True))) from None
        scenarios.append(scenario)
        varied.append(tuple(zip(paths, values, strict=True)))
    if filler.unused is not None:
        # Said last: a draft whose own acceptance is wrong shall not be told to go without the other.
        raise InputError(filler.unused)
    return Resolution(tuple(scenarios), tuple(varied), filled, tuple(dict.fromkeys(remarks)))


def _checked(complete: LocatedDict, what_if: tuple[str, ...]) -> Scenario:
    """The scenario of a filled document, once its cards are plausible beside each other.

    Figures of an accelerator that are varied on purpose are not held against those of the catalogue.
    """
    scenario = validate(Scenario, complete)
    if scenario.hardware is not None:
        if not any(path.startswith("hardware.") for path in what_if):
            check_hardware(scenario.hardware, complete, ("hardware",))
        if scenario.node is not None:
            check_node(scenario.node, complete, ("node",))
            _check_built_from(scenario.hardware, scenario.node, complete)
        _check_plain_step(scenario, complete)
    return scenario


def _at_its_axis(error: InputError, document: LocatedDict, values: dict[str, object]) -> InputError:
    """The same faults; those that would blame a card of the catalogue, which an axis made wrong, at that axis."""
    faults = []
    for fault in error.faults:
        path = next((path for path in values if fault.path and path.endswith(fault.path.rpartition(".")[0])), None)
        path = path or next(iter(values), None)
        if path is None or fault.place.file is None or not library.is_shipped(fault.place.file):
            faults.append(fault)
            continue
        place, _ = place_of(document, ("grid", path))
        faults.append(Fault(f"with {shown(values[path])}: {fault.message}", place, f"grid.{path}"))
    return InputError(dict.fromkeys(faults))


def _check_built_from(hardware: Hardware, node: Node, document: LocatedDict) -> None:
    """Refuse a node that is built from other accelerators; what is not in the catalogue may stand anywhere."""
    name = library.known_name("hardware", hardware.name)
    if not node.hardware or name is None:
        return
    if name not in {library.known_name("hardware", built) for built in node.hardware}:
        message = f"{node.name} is built from {', '.join(node.hardware)} and not from {hardware.name}."
        raise InputError(Fault(message, document.places.get("node", document.place), "node"))


def _check_plain_step(scenario: Scenario, document: LocatedDict) -> None:
    try:
        questions(scenario)
    except InputError as error:
        place = place_of(document, ("costs", "plain_step"))
        raise InputError([Fault(fault.message, *place) for fault in error.faults]) from None


def _thaw(value: Any) -> Any:
    """A deep copy that keeps the places."""
    if isinstance(value, LocatedDict):
        return LocatedDict({k: _thaw(v) for k, v in value.items()}, value.place, value.places, value.inside)
    if isinstance(value, LocatedList):
        return LocatedList([_thaw(v) for v in value], value.place, value.places, value.alone)
    return value


def resolved_document(resolution: Resolution) -> dict[str, Any]:
    """The document of a resolution with every field; axes that vary a field stay in its grid as written."""
    document = document_of(resolution.scenarios[0])
    written = resolution.document.get("grid", {})
    document["grid"] |= {
        path: list(v) if isinstance(v, list) else v for path, v in written.items() if path not in document["grid"]
    }
    return document
