"""YAML as data only: the scalars of YAML 1.2, no tags, nothing twice, nothing that explodes.

PyYAML's own rules are those of YAML 1.1, where ``1e-3`` is text, ``no`` is false and ``12:30:00`` is a number.
Its scanner and parser are used here, its rules for values are not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from sim.scenario.faults import Fault, Loc, ScenarioError, dotted, found, shown

Place = tuple[int, int]
MAX_DEPTH = 50
MAX_NODES = 100_000
MAX_DIGITS = 40

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INF_NAN = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

_PLAINLY = {
    "found character '\\t' that cannot start any token": "found a tab, but YAML is indented with spaces only",
    "mapping values are not allowed here": (
        "found a ':' where no key can be; is this line indented as the others, or does a text with ': ' need quotes?"
    ),
    "could not find expected ':'": "this line is no `key: value`",
    "but found another document": "found a second document ('---'), but a scenario is one document",
}


@dataclass(slots=True)
class Places:
    """Line and column of every value, and of every key."""

    values: dict[Loc, Place] = field(default_factory=dict)
    keys: dict[Loc, Place] = field(default_factory=dict)


def load(text: str, name: str) -> tuple[Any, list[Fault], Places]:
    """Return the data of a YAML text, what is wrong with it, and where everything stands.

    Raise ScenarioError where there is no going on: no YAML, or too much of it.
    """
    builder = _Builder(name)
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        at: int = error.position
        place = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        message = f"not YAML: found U+{ord(text[at]):04X}, which is no printable character"
        raise builder.stop(place, message) from None
    try:
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark or loader.get_mark()
        raise builder.stop(_place(mark), _plainly(error)) from None
    except (ValueError, OverflowError, RecursionError) as error:
        # The scanner converts numbers in escapes and directives without checking them.
        raise builder.stop(_place(loader.get_mark()), f"not valid YAML: {error}") from None
    builder.tags = loader.tags
    data = None if root is None else builder.build(root, ())
    return data, builder.faults, builder.places


def scalar(text: str) -> Any:
    """Return what unquoted text means in YAML 1.2 (core schema).

    >>> [scalar(word) for word in ("no", "1e-3", "0o17", "0x1F", "~", "TRUE", "12:30:00", "1_000")]
    ['no', 0.001, 15, 31, None, True, '12:30:00', '1_000']
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise ValueError(f"a whole number of more than {MAX_DIGITS} digits")
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INF_NAN.fullmatch(text):
        return float(text.replace(".", ""))
    return text


class _Loader(yaml.SafeLoader):
    """PyYAML's composer without its ideas about values: they are made from the nodes by `_Builder`."""

    # An own table: PyYAML's is shared by everybody who reads YAML in this process.
    yaml_implicit_resolvers: dict[str, Any] = {}

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.tags: dict[int, str] = {}
        self._depth = self._count = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node; note an explicit tag, and stop before the stack does."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self._depth += 1
        self._count += 1
        if self._depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem=_TOO_DEEP, problem_mark=event.start_mark)
        if self._count > 2 * MAX_NODES:  # keys are nodes too
            raise yaml.MarkedYAMLError(problem=_TOO_MUCH, problem_mark=event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        tag = getattr(event, "tag", None)
        if node is not None and tag is not None:
            self.tags[id(node)] = tag
        return node


_TOO_DEEP = f"nested too deep: allowed are {MAX_DEPTH} levels"
_TOO_MUCH = f"too much data: allowed are {MAX_NODES:,} values"
_TAG = "found the tag {}, but a scenario holds plain data only"


class _Builder:
    """Turns nodes into data, collecting faults on the way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.faults: list[Fault] = []
        self.places = Places()
        self.tags: dict[int, str] = {}
        self._count = 0
        self._open: set[int] = set()
        self._told: set[tuple[int, str]] = set()

    def build(self, node: yaml.Node, loc: Loc) -> Any:
        """Return the data of a node that stands at `loc`."""
        self.places.values[loc] = _place(node.start_mark)
        self._count += 1
        if self._count > MAX_NODES:
            raise self.stop(_place(node.start_mark), _TOO_MUCH, loc)
        if id(node) in self._open:
            raise self.stop(_place(node.start_mark), "an alias (*name) stands inside what it names", loc)
        if len(self._open) >= MAX_DEPTH:
            raise self.stop(_place(node.start_mark), _TOO_DEEP, loc)
        if id(node) in self.tags:
            self._tell(node, loc, _TAG.format(shown(self.tags[id(node)])))
        self._open.add(id(node))
        data = self._content(node, loc)
        self._open.remove(id(node))
        return data

    def stop(self, place: Place, message: str, loc: Loc = ()) -> ScenarioError:
        """Return the end of it all, with what was found before."""
        return ScenarioError([*self.faults, Fault(_where(self.name, place), dotted(loc), message)])

    def _tell(self, node: yaml.Node, loc: Loc, message: str) -> None:
        # An alias brings the same node again: its fault is one all the same.
        if (id(node), message) not in self._told:
            self._told.add((id(node), message))
            self.faults.append(Fault(_where(self.name, _place(node.start_mark)), dotted(loc), message))

    def _content(self, node: yaml.Node, loc: Loc) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, loc)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*loc, i)) for i, child in enumerate(node.value)]
        return self._scalar(node, loc)

    def _scalar(self, node: Any, loc: Loc) -> Any:
        return self._plain(node, loc) if node.style is None else self._text(node, loc)

    def _plain(self, node: yaml.ScalarNode, loc: Loc) -> Any:
        try:
            return scalar(node.value)
        except ValueError as error:
            self._tell(node, loc, f"found {error}: {shown(node.value)}")
            return 0

    def _text(self, node: yaml.ScalarNode, loc: Loc) -> str:
        # JSON writes characters beyond U+FFFF as two escapes, which the scanner leaves apart.
        text = str(node.value).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if "\0" in text or text.count("\ufffd") > node.value.count("\ufffd"):
            self._tell(node, loc, f"found an escape in the text {shown(node.value)} that is no character")
        return text

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, loc)
            if key is None:
                continue
            place = (*loc, key)
            if key in data:
                line, column = self.places.keys[place]
                self._tell(key_node, place, f"this key is given twice: first in line {line}, column {column}")
                continue
            self.places.keys[place] = _place(key_node.start_mark)
            data[key] = self.build(value_node, place)
        return data

    def _key(self, node: yaml.Node, loc: Loc) -> str | None:
        """Return a key, or None after telling why it is none."""
        if not isinstance(node, yaml.ScalarNode):
            what = "a mapping" if isinstance(node, yaml.MappingNode) else "a list"
            self._tell(node, loc, f"keys are text, found {what} as a key; does a text with {{ or [ need quotes?")
            return None
        if id(node) in self.tags:
            self._tell(node, loc, _TAG.format(shown(self.tags[id(node)])))
        if node.style is None and node.value == "<<":
            self._tell(node, loc, "merge keys (<<) are not supported: write the keys out")
            return None
        key = self._scalar(node, loc)
        if not isinstance(key, str):
            self._tell(node, loc, f"keys are text, found {found(key)} as a key; put it in quotes if it is meant")
            return None
        return key


def _place(mark: yaml.Mark) -> Place:
    return mark.line + 1, mark.column + 1


def _where(name: str, place: Place) -> str:
    return f"{name}:{place[0]}:{place[1]}"


def _plainly(error: yaml.MarkedYAMLError) -> str:
    """Put PyYAML's words plainly."""
    problem, context = str(error.problem), error.context or ""
    if problem in (_TOO_DEEP, _TOO_MUCH):
        return problem
    if problem in _PLAINLY:
        return _PLAINLY[problem]
    if problem == "second occurrence":
        return f"not valid YAML: {context.split(';')[0]}"
    if context and error.context_mark is not None:
        problem += f" ({context} that begins in line {error.context_mark.line + 1})"
    is_sign = "cannot start any token" in problem or "alias" in problem or "anchor" in problem
    return f"not valid YAML: {problem}{'; does a text need quotes here?' if is_sign else ''}"
