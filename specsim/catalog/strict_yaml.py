"""The only reader and writer of YAML: version 1.2 numbers and booleans, no repeated keys, no nulls, lines kept.

PyYAML's own rules are those of YAML 1.1: ``4.8e12`` is a string there, ``010`` is 8, ``no`` is False, ``1:30``
is 90, and a repeated key silently wins over the first.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from specsim.catalog.located import LocatedDict, LocatedList
from specsim.errors import Fault, InputError, Place

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_NULL = re.compile(r"null|Null|NULL|~|")
_TRUE, _FALSE = re.compile(r"true|True|TRUE"), re.compile(r"false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")  # a longer one is no whole number that anything here could use
_OCTAL, _HEXADECIMAL = re.compile(r"0o[0-7]{1,64}"), re.compile(r"0x[0-9a-fA-F]{1,64}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN")


def plain_value(text: str) -> Any:
    """What an unquoted scalar means under the core rules of YAML 1.2; None for null.

    >>> [plain_value(t) for t in ("4.8e12", "010", "no", "1:30", "true")]
    [4800000000000.0, 10, 'no', '1:30', True]
    """
    for pattern, meaning in (
        (_NULL, lambda _: None),
        (_TRUE, lambda _: True),
        (_FALSE, lambda _: False),
        (_INTEGER, int),
        (_OCTAL, lambda t: int(t, 8)),
        (_HEXADECIMAL, lambda t: int(t, 16)),
        (_FLOAT, lambda t: float(t.lower().replace(".inf", "inf").replace(".nan", "nan"))),
    ):
        if pattern.fullmatch(text):
            return meaning(text)
    return text


def read_yaml(path: Path) -> LocatedDict:
    """Read one document, a mapping, from a file.

    Raises:
        InputError: If the file cannot be read, is not YAML, repeats a key, holds a null, or is not a mapping.
    """
    return parse_yaml(_text(path), str(path))


def read_yaml_rows(path: Path) -> LocatedList:
    """Read one document, a list of mappings, from a file.

    Raises:
        InputError: As ``read_yaml``, or if it is no list of mappings.
    """
    document = _parse(_text(path), str(path), yaml.SequenceNode, "a YAML list of rows, each a mapping")
    for row, place in zip(document, document.places, strict=True):
        if not isinstance(row, LocatedDict):
            raise InputError(Fault("expected a mapping of fields to values.", place))
    return document


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}.", Place(str(path)))) from None
    except UnicodeDecodeError:
        raise InputError(Fault("is not a text file in UTF-8.", Place(str(path)))) from None


def parse_yaml(text: str, file: str) -> LocatedDict:
    """Read one document, a mapping, from text; ``file`` is its name in messages.

    Raises:
        InputError: As ``read_yaml``.
    """
    document = _parse(text, file, yaml.MappingNode, "a YAML mapping of fields to values")
    if not isinstance(document, LocatedDict):
        raise AssertionError
    return document


def _parse(text: str, file: str, kind: type[yaml.Node], expected: str) -> Any:
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, max(text.find(chr(error.character)), 0)) + 1
        problem = f"the character U+{error.character:04X} is not allowed"
        raise InputError(Fault(f"not valid YAML: {problem}.", Place(file, line))) from None
    except yaml.MarkedYAMLError as error:
        raise InputError(_syntax_fault(error, text, file)) from None
    if not isinstance(node, kind):
        raise InputError(Fault(f"expected {expected}.", Place(file, 1)))
    reader = _Reader(file, loader)
    document = reader.value(node, "")
    if reader.faults:
        raise InputError(reader.faults)
    return document


_PLAINER = {
    "but found another document": "a second document begins here, expected one",
    "mapping values are not allowed in this context": "a colon where none can be; text with a colon needs quotes",
    "second occurrence": "this anchor is defined already",
    "found a tab character that violates indentation": "a tab cannot indent, use spaces",
}


def _syntax_fault(error: yaml.MarkedYAMLError, text: str, file: str) -> Fault:
    problem, mark, begin = error.problem or "not one YAML document", error.problem_mark, error.context_mark
    if mark is None:
        return Fault(f"not valid YAML: {problem}.", Place(file))
    if problem in _PLAINER:
        problem = _PLAINER[problem]
    elif problem == "found character that cannot start any token":
        found = text.splitlines()[mark.line][mark.column]
        problem = "a tab cannot indent, use spaces" if found == "\t" else f"text that begins with {found} needs quotes"
    elif begin is not None and begin.line < mark.line and error.context:
        problem += f" ({error.context} from line {begin.line + 1})"
    return Fault(f"not valid YAML: {problem}.", Place(file, mark.line + 1))


_DEEPEST = 50
_MOST_NODES = 500_000
"""Aliases multiply: a short text can stand for more values than fit in memory."""


class _Reader:
    """Turns YAML nodes into values and collects what is wrong with them."""

    def __init__(self, file: str, loader: Any) -> None:
        self.file = file
        self.faults: list[Fault] = []
        self._loader = loader
        self._open: set[int] = set()
        self._nodes = 0

    def place(self, node: yaml.Node) -> Place:
        return Place(self.file, node.start_mark.line + 1)

    def value(self, node: yaml.Node, path: str) -> Any:
        if id(node) in self._open:
            self.faults.append(Fault("an alias that contains itself.", self.place(node), path))
            return ""
        self._nodes += 1
        if len(self._open) == _DEEPEST or self._nodes > _MOST_NODES:
            limit = f"{_DEEPEST} levels" if self._nodes <= _MOST_NODES else f"{_MOST_NODES:,} values"
            raise InputError(Fault(f"the document has more than {limit}.", self.place(node)))
        self._refuse_tag(node, path)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self.mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                values = [self.value(child, f"{path}[{i}]") for i, child in enumerate(node.value)]
                return LocatedList(values, self.place(node), [self.place(child) for child in node.value])
            return self.scalar(node, path)
        finally:
            self._open.discard(id(node))

    def _refuse_tag(self, node: yaml.Node, path: str) -> None:
        """A tag says how to read a value; here the value itself does."""
        quoted = bool(getattr(node, "style", None))
        if node.tag != self._loader.resolve(type(node), node.value, (not quoted, quoted)):
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            self.faults.append(Fault(f"the tag {tag} is not allowed.", self.place(node), path))

    def scalar(self, node: yaml.Node, path: str) -> Any:
        if getattr(node, "style", None):
            return node.value
        value = plain_value(node.value)
        if value is None:
            self.faults.append(
                Fault("expected a value, found none; leave the field out instead.", self.place(node), path)
            )
            return ""
        return value

    def mapping(self, node: yaml.MappingNode, path: str) -> LocatedDict:
        found = LocatedDict(place=self.place(node))
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self.faults.append(Fault("a key must be a plain word.", self.place(key_node), path))
                continue
            key = str(key_node.value)
            child = f"{path}.{key}" if path else key
            if key == "<<" and not key_node.style:
                self.faults.append(Fault("merging with << is not allowed.", self.place(key_node), path))
                continue
            if key in found:
                first = found.places[key].line
                self.faults.append(
                    Fault(f"repeated key; it stands on line {first} already.", self.place(key_node), child)
                )
            found.places[key] = self.place(key_node)
            found[key] = self.value(value_node, child)
        return found


class _StrictDumper(_Dumper):  # type: ignore[misc, valid-type]
    """Writes text so that this module's reader reads text again."""


def _write_text(dumper: Any, text: str) -> yaml.Node:
    ambiguous = not isinstance(plain_value(text), str)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if ambiguous else None)


def _write_float(dumper: Any, number: float) -> yaml.Node:
    # Spelled so that the dumper, which knows version 1.1, sees a float too and adds no tag.
    text = repr(number).replace("inf", ".inf").replace("nan", ".nan")
    text = text if "." in text else text.replace("e", ".0e")
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


_StrictDumper.add_representer(str, _write_text)
_StrictDumper.add_representer(float, _write_float)


def write_yaml(document: object) -> str:
    """A document as YAML text that ``parse_yaml`` reads back unchanged."""
    text: str = yaml.dump(document, Dumper=_StrictDumper, sort_keys=False, allow_unicode=True, width=110)
    return text
