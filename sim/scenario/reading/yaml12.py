"""Parse YAML 1.2 as plain data: without tags, duplicate keys or unbounded aliases.

PyYAML resolves scalars by YAML 1.1, where ``1e-3`` is text, ``no`` is false and ``12:30:00`` is a number. This module
uses its scanner and parser, and resolves scalars by YAML 1.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from sim.components.wording import described, listing, shown
from sim.scenario.reading.faults import Fault, Loc, ScenarioError, dotted

Place = tuple[int, int]
MAX_DEPTH = 50
MAX_NODES = 100_000
MAX_DIGITS = 40

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INF_NAN = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

_TAB = "found a tab, but YAML is indented with spaces only"
_NO_KEY = "found a ':' where no key is allowed; check the indentation of this line, or quote a text that contains ': '"
_EXPLANATIONS = {
    "found character '\\t' that cannot start any token": _TAB,
    "sequence entries are not allowed here": "found a list item (-) in the middle of a line; start a new line for it",
    "but found another document": "found a second document ('---'), but a scenario must be one document",
}
_LINE = re.compile(r"( *)((?:- +)*)(.*)", re.DOTALL)
_KEY = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s#"'\[{][^#]*?):(?:\s|$)""")
_MOST_LEVELS = 3


@dataclass(slots=True)
class Places:
    """Line and column of every value, and of every key."""

    values: dict[Loc, Place] = field(default_factory=dict)
    keys: dict[Loc, Place] = field(default_factory=dict)


def load(text: str, name: str) -> tuple[Any, list[Fault], Places]:
    """Return the data of a YAML text, its faults, and the position of every value.

    Raise ScenarioError if reading cannot continue: the text is not YAML, or too large.
    """
    builder = _Builder(name)
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        at: int = error.position
        place = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        message = f"found U+{ord(text[at]):04X}, which is not a printable character"
        raise builder.stop(place, message, "invalid-character") from None
    try:
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        error.problem_mark = error.problem_mark or error.context_mark or loader.get_mark()
        code = "too-large" if error.problem in (_TOO_DEEP, _TOO_MUCH) else "invalid-yaml"
        raise builder.stop(*_SyntaxError(text, error).explained(), code) from None
    except (ValueError, OverflowError, RecursionError) as error:
        # The scanner converts numbers in escapes and directives without range checks.
        raise builder.stop(_place(loader.get_mark()), f"not valid YAML: {error}", "invalid-yaml") from None
    builder.tags = loader.tags
    data = None if root is None else builder.build(root, ())
    return data, builder.faults, builder.places


def scalar(text: str) -> Any:
    """Return the value of unquoted text in YAML 1.2 (core schema).

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


def space_missing(value: Any) -> str:
    """Return the remedy if a text looks like ``key: value`` without the space, else an empty text.

    >>> space_missing("seed:1"), space_missing("seed")
    ("; put a space after the ':'", '')
    """
    return "; put a space after the ':'" if isinstance(value, str) and re.match(r"[\w.]+:\S", value) else ""


class _Loader(yaml.SafeLoader):
    """PyYAML's composer without its resolution of scalars, which `_Builder` does."""

    # A new table: PyYAML's is shared by all loaders of the process.
    yaml_implicit_resolvers: dict[str, Any] = {}

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.tags: dict[int, str] = {}
        self._depth = self._count = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node; record an explicit tag, and limit depth and number of nodes."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self._depth += 1
        self._count += 1
        if self._depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem=_TOO_DEEP, problem_mark=event.start_mark)
        if self._count > 2 * MAX_NODES:  # keys count as nodes
            raise yaml.MarkedYAMLError(problem=_TOO_MUCH, problem_mark=event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        tag = getattr(event, "tag", None)
        if node is not None and tag is not None:
            self.tags[id(node)] = tag
        return node


_TOO_DEEP = f"the nesting is too deep: at most {MAX_DEPTH} levels are allowed"
_TOO_MUCH = f"too much data: at most {MAX_NODES:,} values are allowed"
_TAG = "found the tag {}, but a scenario must be plain data without tags"


class _Builder:
    """Converts nodes to data and collects faults."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.faults: list[Fault] = []
        self.places = Places()
        self.tags: dict[int, str] = {}
        self._count = 0
        self._open: set[int] = set()
        self._reported: set[tuple[int, str]] = set()

    def build(self, node: yaml.Node, loc: Loc) -> Any:
        """Return the data of the node at `loc`."""
        self.places.values[loc] = _place(node.start_mark)
        self._count += 1
        if self._count > MAX_NODES:
            raise self.stop(_place(node.start_mark), _TOO_MUCH, "too-large", loc)
        if id(node) in self._open:
            message = "an alias (*name) refers to a node that contains it"
            raise self.stop(_place(node.start_mark), message, "recursive-alias", loc)
        if len(self._open) >= MAX_DEPTH:
            raise self.stop(_place(node.start_mark), _TOO_DEEP, "too-large", loc)
        if id(node) in self.tags:
            self._add_fault(node, loc, _TAG.format(shown(self.tags[id(node)])), "unsupported-yaml")
        self._open.add(id(node))
        data = self._content(node, loc)
        self._open.remove(id(node))
        return data

    def stop(self, place: Place, message: str, code: str, loc: Loc = ()) -> ScenarioError:
        """Return an error with a fault that prevents further reading, and all faults before it."""
        return ScenarioError([*self.faults, Fault(_where(self.name, place), dotted(loc), message, code)])

    def _add_fault(self, node: yaml.Node, loc: Loc, message: str, code: str) -> None:
        # An alias repeats a node; report its fault once.
        if (id(node), message) not in self._reported:
            self._reported.add((id(node), message))
            self.faults.append(Fault(_where(self.name, _place(node.start_mark)), dotted(loc), message, code))

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
            self._add_fault(node, loc, f"found {error}: {shown(node.value)}", "out-of-range")
            return 0

    def _text(self, node: yaml.ScalarNode, loc: Loc) -> str:
        # JSON writes characters above U+FFFF as two escapes, which the scanner does not combine.
        text = str(node.value).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if "\0" in text or text.count("\ufffd") > node.value.count("\ufffd"):
            message = f"found an escape in the text {shown(node.value)} that is not a valid character"
            self._add_fault(node, loc, message, "invalid-character")
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
                message = f"this key is given twice: first in line {line}, column {column}"
                self._add_fault(key_node, place, message, "duplicate-key")
                continue
            self.places.keys[place] = _place(key_node.start_mark)
            data[key] = self.build(value_node, place)
        return data

    def _key(self, node: yaml.Node, loc: Loc) -> str | None:
        """Return a key; None, with a fault, if it is not valid."""
        if not isinstance(node, yaml.ScalarNode):
            shape = "a mapping" if isinstance(node, yaml.MappingNode) else "a list"
            message = f"keys must be text, found {shape} as a key; does a text with {{ or [ need quotes?"
            self._add_fault(node, loc, message, "invalid-key")
            return None
        if id(node) in self.tags:
            self._add_fault(node, loc, _TAG.format(shown(self.tags[id(node)])), "unsupported-yaml")
        if node.style is None and node.value == "<<":
            self._add_fault(node, loc, "merge keys (<<) are not supported: write the keys out", "unsupported-yaml")
            return None
        key = self._scalar(node, loc)
        if not isinstance(key, str):
            message = f"keys must be text, found {described(key)} as a key; if this key is intended, put it in quotes"
            self._add_fault(node, loc, message, "invalid-key")
            return None
        return key


def _place(mark: yaml.Mark) -> Place:
    return mark.line + 1, mark.column + 1


def _where(name: str, place: Place) -> str:
    return f"{name}:{place[0]}:{place[1]}"


class _SyntaxError:
    """Explains an error of PyYAML; the mistake is often before the position where the parser fails."""

    def __init__(self, text: str, error: yaml.MarkedYAMLError) -> None:
        self.lines = text.splitlines()
        self.problem, self.context = str(error.problem), error.context or ""
        self.line, self.column = error.problem_mark.line, error.problem_mark.column  # type: ignore[union-attr]
        self.start = error.context_mark
        self.here = (self.line + 1, self.column + 1)

    def explained(self) -> tuple[Place, str]:
        """Return the position of the mistake and its description."""
        if self.problem in (_TOO_DEEP, _TOO_MUCH):
            return self.here, self.problem
        if self.problem in _EXPLANATIONS:
            return self.here, _EXPLANATIONS[self.problem]
        if self.problem == "mapping values are not allowed here":
            return self._colon()
        if self.problem.startswith(("expected <block end>", "expected '<document start>'")):
            return self._block()
        if self.start is not None and self.problem != "second occurrence":
            explanation = self._begun(_place(self.start))
            if explanation is not None:
                return explanation
        return self.here, self._of_pyyaml()

    def _begun(self, start: Place) -> tuple[Place, str] | None:
        """Explain common mistakes in a construct that starts before the error, at `start`."""
        sign = self._text(start[0] - 1)[start[1] - 1 : start[1]]
        if self.problem == "could not find expected ':'":
            return start, _no_key_in(self._text(start[0] - 1))
        if self.problem.startswith(("expected ',' or ']'", "expected ',' or '}'")):
            return self._bracket(start, sign)
        if self.context == "while scanning a quoted scalar":
            return start, f"this quote ({sign}) is never closed"
        return self._sign(start)

    def _sign(self, start: Place) -> tuple[Place, str] | None:
        """Explain characters with a special meaning in YAML."""
        if self.problem.startswith("found unknown escape character"):
            escape = self._text(self.line)[self.column : self.column + 1]
            return self.here, f"invalid escape \\{escape} in double quotes; use single quotes for this text"
        if self.context == "while scanning an alias":
            return start, "a text that starts with * needs quotes"
        if self.problem.startswith("expected the node content"):
            token = self.problem.rpartition("found ")[2]
            if "stream end" in token:
                return self.here, "the file ends where a value is expected; is a bracket not closed?"
            return self.here, f"found {token} where a value is expected; does a text need quotes here?"
        return None

    def _bracket(self, start: Place, sign: str) -> tuple[Place, str]:
        closing = {"[": "]", "{": "}"}.get(sign, sign)
        if self.problem.endswith("'<stream end>'"):
            return start, f"this {sign!r} is never closed"
        if start[0] == self.line + 1:
            return self.here, f"expected ',' or {closing!r} here: the {sign!r} in column {start[1]} is still open"
        return start, f"this {sign!r} is still open in line {self.line + 1}: is a {closing!r} or a ',' missing?"

    def _colon(self) -> tuple[Place, str]:
        """Explain a misplaced ``:``: a second one in the line, no key in the line above, or a wrong indentation."""
        indent = _parts(self._text(self.line))[2]
        if re.search(r":\s", self._text(self.line)[: self.column]):
            return self.here, "found a second ': ' in this line; does a text need quotes?"
        above = next((i for i in reversed(range(self.line)) if _has_content(self._text(i))), None)
        if above is None:
            return self.here, _NO_KEY
        content, _, column = _parts(self._text(above))
        if not _KEY.match(content):
            return (above + 1, column + 1), _no_key_in(self._text(above))
        if indent > column:
            return (self.line + 1, indent + 1), self._indented() or _NO_KEY
        return self.here, _NO_KEY

    def _block(self) -> tuple[Place, str]:
        """Explain a line that does not fit the block above it."""
        character = self._text(self.line)[self.column : self.column + 1]
        if self._text(self.line)[: self.column].strip():
            if character in ("]", "}"):
                return self.here, f"found a {character!r} without an opening bracket"
            problem = "found text after the end of a value"
            return self.here, f"{problem}; is a quote missing or superfluous, or does the whole value need quotes?"
        what = "a list item (-) among keys" if character == "-" else "a key among list items (-)"
        return self.here, self._indented() or f"found {what}; check the indentation of this line"

    def _indented(self) -> str:
        """Compare the indentation of a line with that of the open blocks above it; empty if it matches one of them."""
        text = self._text(self.line)
        indent = len(text) - len(text.lstrip(" "))
        is_item = text[indent:].startswith("- ")
        levels = self._levels(is_item)
        if not levels or indent in levels:
            return ""
        nearest = sorted(levels, key=lambda level: abs(level - indent))[:_MOST_LEVELS]
        above = listing(f"{level} (line {levels[level] + 1})" for level in nearest)
        spaces = f"{indent} space{'' if indent == 1 else 's'}"
        return f"this line is indented by {spaces}, but the {'list items' if is_item else 'keys'} above it by {above}"

    def _levels(self, of_items: bool) -> dict[int, int]:
        """Return the indentations of the blocks open above the line, each with the number of its nearest line."""
        levels: dict[int, int] = {}
        lowest = max(map(len, self.lines), default=0) + 1
        for i in reversed(range(self.line)):
            content, dash, column = _parts(self._text(i))
            if not _has_content(self._text(i)):
                continue
            level = dash if of_items else column if _KEY.match(content) else None
            if level is not None and level < lowest:
                levels[level] = i
            lowest = min(lowest, column if dash is None else dash)
        return levels

    def _text(self, line: int) -> str:
        return self.lines[line] if line < len(self.lines) else ""

    def _of_pyyaml(self) -> str:
        if self.problem == "second occurrence":
            return f"not valid YAML: {self.context.split(';')[0]}"
        problem = self.problem
        if self.context and self.start is not None:
            problem += f" ({self.context} that starts in line {self.start.line + 1})"
        is_sign = "cannot start any token" in problem or "alias" in problem or "anchor" in problem
        return f"not valid YAML: {problem}{'; does a text need quotes here?' if is_sign else ''}"


def _parts(line: str) -> tuple[str, int | None, int]:
    """Return the content of a line after indentation and dashes, the column of a dash or None, and its own column."""
    match = _LINE.fullmatch(line)
    indent, dashes, content = match.groups() if match else ("", "", line)
    return content, len(indent) if dashes else None, len(indent + dashes)


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#") and not line.startswith("---")


def _no_key_in(line: str) -> str:
    """Describe what is missing in a line that should be ``key: value``."""
    content = _parts(line)[0]
    if re.match(r"-\S", content):
        return "a space is missing after the '-'"
    missing = "a space is missing after the ':'" if space_missing(content) else "a ':' is missing"
    return f"this line is not `key: value`: {missing}"
