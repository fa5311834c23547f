"""`{symbols}`: the paper's symbols and our names, both ways, each with its line of code.

A line of the directive is `symbol | what it is | object`, where the object is `module:Class.field` or
`module:function`; a line without an object is a heading.
"""

import ast
from typing import Any, NamedTuple

from sources import Generated, modules


class Symbol(NamedTuple):
    symbol: str
    meaning: str
    object: str

    @property
    def name(self) -> str:
        return self.object.partition(":")[2]


class Symbols(Generated):
    def markdown(self) -> str:
        found = read(self.content)
        lines = ["## From the paper to the code\n", *_HEADER]
        lines += [_row(symbol.symbol, symbol) for symbol in found]
        lines += ["", "## From the code to the paper\n", "| code | paper | what | line |", _RULE]
        ordered = sorted(found, key=lambda symbol: symbol.name.rpartition(".")[2].lower())
        lines += [
            f"| `{symbol.name}` | {symbol.symbol} | {symbol.meaning} | `{line_of(symbol.object)}` |"
            for symbol in ordered
        ]
        return "\n".join(lines)


_RULE = "|---|---|---|---|"
_HEADER = ["| paper | code | what | line |", _RULE]


def read(lines: Any) -> list[Symbol]:
    """The symbols of the directive's lines."""
    rows = [[cell.strip() for cell in line.split("|")] for line in lines if line.strip()]
    return [Symbol(*row) for row in rows]


def line_of(name: str) -> str:
    """`path:line` of `module:Class.field`, `module:function` or `module:CONSTANT`."""
    module, _, inner = name.partition(":")
    path = module.replace(".", "/") + ".py"
    found: Any = modules()[path]
    for part in inner.split("."):
        found = next((node for node in found.body if part in _names(node)), None)
        if found is None:
            raise LookupError(f"{name}: no {part!r} in {path}")
    return f"{path.partition('/')[2]}:{found.lineno}"


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _row(symbol: str, found: Symbol) -> str:
    return f"| {symbol} | `{found.name}` | {found.meaning} | `{line_of(found.object)}` |"


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("symbols", Symbols)
    return {"parallel_read_safe": True}
