"""Unusual values: wrong types, extreme numbers, texts with control characters, kinds that name code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Path = tuple[str | int, ...]

NUMBERS: tuple[Any, ...] = (
    *(
        0,
        1,
        -1,
        2,
        3,
        255,
        2**31 - 1,
        2**31,
        2**53 + 1,
        2**63 - 1,
        2**63,
        2**64 - 1,
        2**64,
        -(2**63),
        10**39,
        -(10**30),
    ),
    *(0.0, -0.0, 0.5, 1.5, 1e-320, 5e-324, 1e-300, 1e-9, 1e-6, 1e6, 1e9, 1e15, 1e300, 1.7e308, -1.5),
    *(math.nan, math.inf, -math.inf),
)
TEXTS = (
    *(
        "",
        " ",
        "a",
        "0",
        "1",
        "-1",
        "1e3",
        "nan",
        ".inf",
        "null",
        "true",
        "no",
        "~",
        "*",
        "&a",
        "!!python/name:os.system",
    ),
    *(
        "a: b",
        "[",
        "{",
        "- -",
        "#",
        "kind",
        "..",
        "../../etc/passwd",
        "/dev/zero",
        "/",
        "data:",
        "data:../x",
        "con.csv",
    ),
    *(
        "\x1b[31mred\x1b[0m",
        "\x07",
        "\r\n",
        "\t",
        "\u202eabc",
        "\ufeff",
        "é",
        "٣",
        "𝔘",
        "🙂",
        "a\u0301",
        "\x85",
        "\u2028",
    ),
    *("x" * 5000, "." * 300, "lppms.*.design", "users", "others", "sporadic", "SP-Exp", "PEB-Exp", "favourites"),
)
HOSTILE_KINDS = (
    *("os:system", "os:remove", "os:getcwd", "os.path:join", "subprocess:Popen", "subprocess:run", "shutil:rmtree"),
    *("builtins:exec", "builtins:eval", "builtins:open", "builtins:object", "builtins:type", "pathlib:Path"),
    *("evil:Evil", "evil:make", "evil:missing", "evil:Evil.Inner", "evil:__name__", "evil_package.inner:Evil"),
    *("evil_package:Evil", "antigravity:x", "this:s", "turtledemo.forest:main", "ensurepip:bootstrap", "evil.py:Evil"),
    *("sim.errors:UserError", "sim.cli:main", "sim.lppm.planar:x", "importlib:import_module", "pickle:loads"),
    *(
        ".evil:Evil",
        "..evil:Evil",
        "/tmp/evil:Evil",
        "evil:",
        ":Evil",
        "evil:Evil:Evil",
        "evil;import os:x",
        "e\u0301vil:Evil",
    ),
)
KEYS = (
    "kind",
    "name",
    "count",
    "queries",
    "file",
    "design",
    "belief",
    "training",
    "__class__",
    "model_config",
    "command",
)


def odd(rng: Random, depth: int = 0) -> Any:
    """Return a value of any type, invalid in most places."""
    plain = (*NUMBERS, *TEXTS, *HOSTILE_KINDS, None, None, None, True, False)
    if depth >= 3 or rng.random() < 0.6:
        return rng.choice(plain)
    ways: tuple[Callable[[], Any], ...] = (
        lambda: [odd(rng, depth + 1) for _ in range(rng.randrange(4))],
        lambda: {rng.choice(KEYS): odd(rng, depth + 1) for _ in range(rng.randrange(4))},
        lambda: {"kind": odd(rng, depth + 1)},
        lambda: component(rng),
        lambda: nested(rng),
    )
    return rng.choice(ways)()


def component(rng: Random) -> dict[str, Any]:
    """Return a component that names code, with harmful arguments."""
    return {"kind": rng.choice(HOSTILE_KINDS), rng.choice(("command", "args", "path", "cmd")): "touch PWNED"}


def nested(rng: Random) -> Any:
    """Return a very deep or very long list or mapping."""
    if rng.random() < 0.5:
        return [rng.choice((0, "a", None))] * rng.choice((50, 2000))
    value: Any = 0
    for _ in range(rng.choice((5, 48, 60, 300))):
        value = [value] if rng.random() < 0.5 else {"kind": value}
    return value


def places(data: Any, at: Path = ()) -> Iterator[Path]:
    """Yield the path of every value below the root."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*at, key)
        yield from places(value, (*at, key))


def value_at(data: Any, path: Path) -> Any:
    """Return the value at a path."""
    for step in path:
        data = data[step]
    return data


def number_near(rng: Random, value: float) -> Any:
    """Return a variation of a number: far from it, close to it, or of another type."""
    match rng.randrange(6):
        case 0:
            return -value
        case 1:
            return value * 10.0 ** rng.randint(-320, 308) if abs(value) < 1e300 else 0
        case 2:
            return value + rng.choice((-1, 1, 0.5))
        case 3:
            return rng.choice(NUMBERS)
        case 4:
            return str(value)
        case _:
            return [value]
