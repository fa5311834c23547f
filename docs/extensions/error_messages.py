"""`{error-messages}`: every message that a mistake of the user's may get, read out of the source."""

import ast
from collections.abc import Iterator
from functools import cache
from typing import Any

from sources import Generated, modules


@cache
def error_names() -> set[str]:
    """The names of StagewiseError and of all classes that derive from it."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    names = {"StagewiseError"}
    while more := {name for name, above in bases.items() if above & names} - names:
        names |= more
    return names


class ErrorMessages(Generated):
    def markdown(self) -> str:
        lines = []
        for package in ("stagewise", "stagewise_experiments"):
            for part in sorted(
                {_part(path) for path in modules() if path.startswith(f"{package}/")}
            ):
                found = list(messages(part))
                if found:
                    lines += [f"### {part}\n", "| message | where |", "|---|---|"]
                    lines += [f"| {text} | `{where}` |" for text, where in found]
                    lines.append("")
        return "\n".join(lines)


def messages(part: str) -> Iterator[tuple[str, str]]:
    """Message and place of all errors raised in a folder or module; what is filled in is in ‹›."""
    for path, tree in modules().items():
        if _part(path) != part:
            continue
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
                continue
            called = node.exc.func
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            if name in error_names() and node.exc.args:
                texts = [_template(argument) for argument in node.exc.args]
                text = next((text for text in texts if " " in text), texts[0])
                yield text.replace("|", "\\|"), f"{path.partition('/')[2]}:{node.lineno}"


def _part(path: str) -> str:
    """The folder of a module below its package, or the module itself."""
    package, _, rest = path.partition("/")
    return f"{package}.{rest.partition('/')[0].removesuffix('.py')}"


def _template(node: ast.expr) -> str:
    """A string or an f-string with its fields as ‹expression›."""
    if isinstance(node, ast.Constant):
        return _escaped(str(node.value))
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(value) for value in node.values)
    if isinstance(node, ast.FormattedValue):
        return f"‹`{ast.unparse(node.value)}`›"
    if isinstance(node, ast.BinOp):
        return _template(node.left) + _template(node.right)
    return f"‹`{ast.unparse(node)}`›"


def _escaped(text: str) -> str:
    for mark in "\\`*_<>[]{}$":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split(" ")).replace("\n", " ")


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("error-messages", ErrorMessages)
    return {"parallel_read_safe": True}
