"""Our source as the site's own directives read it, and what these have in common."""

import ast
from functools import cache
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

SOURCE = Path(__file__).parents[2] / "src"


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of both packages by its path below src, parsed."""
    paths = sorted(SOURCE.rglob("*.py"))
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text("utf-8")) for path in paths}


class Generated(SphinxDirective):
    """A directive that writes Markdown, which is then read as if it stood in the page."""

    has_content = True

    def markdown(self) -> str:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        section = nodes.section()
        section.document = self.state.document
        lines = StringList(self.markdown().splitlines(), source=self.get_source_info()[0])
        self.state.nested_parse(lines, self.content_offset, section, match_titles=True)
        return section.children
