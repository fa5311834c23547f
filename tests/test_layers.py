"""The direction of imports: a module imports only from what docs/architecture.md lists above it.

The first code block of that page is the list. A line is a layer, and a line further in (or to the
right) of a package's line speaks of that package:

    src/name/            the modules of src/name follow
      one.py, two.py     one layer; lines indented deeper than four spaces go on with it
      package/           a package as one layer, if nothing of it is named
      other/             a package whose modules are all named, on this line
        first.py         or on lines of its own, each a layer
        sub/             its __init__ comes after all of them

Within a layer imports may go either way, but not in a circle. Imports in functions count like any other,
since they are how circles hide; so do the modules that a table for `import_module` names. Imports for
type checkers go downwards too, and are left out of circles only.
"""

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

_ENTRY = re.compile(r"(?<![\w./-])(\w+)(\.py\b|/(?=[\s:,]|$))")


class Import(NamedTuple):
    target: str
    line: int
    typing: bool
    """Under `if TYPE_CHECKING`, and so never executed."""


def layers_in(page: str) -> dict[str, int]:
    """The layer of each package and module that the page's first code block names."""
    block = page.split("```")[1]
    layers: dict[str, int] = {}
    root = package = ""
    for number, line in enumerate(block.splitlines()):
        indent = len(line) - len(line.lstrip())
        if indent == 0:
            found = re.match(r"src/(\w+)/", line)
            root = package = found.group(1) if found else ""
            if root:
                layers[root] = number
            continue
        if indent == 2:
            package = root
        layer = number if indent <= 4 else max(layers.values(), default=0)
        for stem, kind in _ENTRY.findall(line) if root else ():
            name = f"{package}.{stem}".removesuffix(".__init__")
            assert name == root or name not in layers, f"{name} is listed twice"
            layers[name] = layer
            if kind != ".py" and package == root:
                package = name
    return layers


def layer_of(module: str, layers: dict[str, int], modules: dict[str, Path]) -> float | None:
    """Where a module stands; None where the page does not list it."""
    within = [layer for name, layer in layers.items() if name.startswith(f"{module}.")]
    if modules[module].name == "__init__.py" and within:
        # After all it gathers, unless the page says where (`__init__.py` of a root).
        return layers[module] if layers[module] > min(within) else max(within) + 0.5
    if module in layers:
        return layers[module]
    parent = module.rpartition(".")[0]
    while parent:
        if parent in layers:
            detailed = any(name.startswith(f"{parent}.") for name in layers)
            return None if detailed else layers[parent]
        parent = parent.rpartition(".")[0]
    return None


def modules_in(source: Path) -> dict[str, Path]:
    """Every module below a source folder, by its dotted name."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        name = ".".join(path.relative_to(source).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imports_of(module: str, path: Path, modules: dict[str, Path]) -> list[Import]:
    """What a module imports of `modules`, wherever in its text."""
    tree = ast.parse(path.read_text())
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    loads_by_name = any(
        isinstance(node, ast.Name | ast.alias)
        and "import_module" in (getattr(node, "id", ""), getattr(node, "name", ""))
        for node in ast.walk(tree)
    )

    def targets(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(above if node.level else ()), *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in modules else base
        elif loads_by_name and isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = node.value.partition(":")[0]
            if named != package:  # an entry point group may be called as the package is
                yield named

    def visit(node: ast.AST, typing: bool) -> Iterator[Import]:
        for target in targets(node):
            if target in modules and target != module:
                yield Import(target, getattr(node, "lineno", 0), typing)
        for_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        body = node.body if isinstance(node, ast.If) else []
        for child in ast.iter_child_nodes(node):
            yield from visit(child, typing or (for_typing and child in body))

    return sorted(set(visit(tree, False)))


def unlisted(modules: dict[str, Path], layers: dict[str, int]) -> list[str]:
    return [name for name in modules if layer_of(name, layers, modules) is None]


def upward(modules: dict[str, Path], layers: dict[str, int]) -> dict[tuple[str, str], str]:
    """Imports of what is listed below the importing module, with a line about each."""
    found = {}
    for module, path in modules.items():
        own = layer_of(module, layers, modules)
        for target, line, _ in imports_of(module, path, modules):
            other = layer_of(target, layers, modules)
            if own is not None and other is not None and other > own:
                found.setdefault((module, target), f"{path}:{line}: {module} imports {target}")
    return found


def circles(modules: dict[str, Path], known: set[tuple[str, str]] = frozenset()) -> list[list[str]]:
    """Modules that import each other in turn when they run, one circle after the other."""
    graph = {
        module: {found.target for found in imports_of(module, path, modules) if not found.typing}
        - {target for importing, target in known if importing == module}
        for module, path in modules.items()
    }
    found: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            # Each module of a circle comes before the one that imports it.
            found.append(error.args[1][::-1])
            graph[found[-1][0]].discard(found[-1][1])
        else:
            return found


def test_every_module_is_listed():
    modules, layers = _tree()
    missing = unlisted(modules, layers)
    gone = [name for name in layers if name not in modules]
    assert not missing, f"not listed in docs/architecture.md: {', '.join(missing)}"
    assert not gone, f"listed in docs/architecture.md, but not there: {', '.join(gone)}"


def test_imports_go_down_the_list():
    found = upward(*_tree())
    lines = ["imports of what docs/architecture.md lists below:", *found.values()]
    assert not found, "\n".join(lines)


def test_no_circle_of_imports():
    found = [" -> ".join(names) for names in circles(_tree()[0])]
    assert not found, "\n".join(["modules that import each other:", *found])


def test_what_counts_as_an_import(tmp_path):
    """Upwards from functions, for type checkers and by name; in a circle only what is executed."""
    page = """
```
src/app/
  errors.py
  low/        first.py, second.py
    third.py
  tools/      whatever there is
  __init__.py
  cli.py
```"""
    texts = {
        "__init__": 'from importlib import import_module\nHOME = ["app.low.first", "app.cli:run"]',
        "errors": "",
        "low/__init__": "from app.low.third import thing",
        "low/first": "def later():\n    from . import third, second",
        "low/second": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
        "    from app.low.first import X\n    import app.tools.hammer\nelse:\n    import app.errors",
        "low/third": "from .second import thing",
        "tools/__init__": "",
        "tools/hammer": "class Hammer:\n    def nail(self):\n        import app.tools.nail",
        "tools/nail": "from app.tools import hammer",
        "cli": "import app, os.path",
        "unlisted": "import app.cli",
        "low/fourth": "",
    }
    for name, text in texts.items():
        path = tmp_path / f"app/{name}.py"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    modules, layers = modules_in(tmp_path), layers_in(page)
    assert unlisted(modules, layers) == ["app.low.fourth", "app.unlisted"]
    assert set(upward(modules, layers)) == {
        ("app", "app.cli"),
        ("app.low.first", "app.low.third"),
        ("app.low.second", "app.tools.hammer"),
    }
    nails = ["app.tools.nail", "app.tools.hammer"]
    assert [set(found) for found in circles(modules, {("app", "app.cli")})] == [set(nails)]


def _tree() -> tuple[dict[str, Path], dict[str, int]]:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return modules_in(ROOT / "src"), layers_in(page)
