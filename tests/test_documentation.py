"""The site's sources: nothing public is left out of the reference, and what pages name exists.

`make docs` builds the site, tutorials included, with every warning an error.
"""

import re
from pathlib import Path

import pytest

import stagewise

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REFERENCE = "".join(
    page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("reference/*.md"))
)


@pytest.fixture
def extensions(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))


@pytest.mark.parametrize("name", stagewise.__all__)
def test_every_public_name_is_in_the_reference(name):
    assert re.search(rf"^\.\. auto\w+:: stagewise\.{name}$", REFERENCE, re.MULTILINE)


def test_exceptions_are_in_the_reference_and_refusals_on_the_page_of_the_service(extensions):
    """Every error of ours can be caught, except that the service makes refusals into statuses."""
    from error_messages import error_names

    refusals = pytest.importorskip("stagewise.serve.refusals")
    caught = {name for name in error_names() if not hasattr(refusals, name)}
    documented = re.findall(r"^\.\. autoexception:: \S*\.(\w+)$", REFERENCE, re.MULTILINE)
    assert {"StagewiseError", *caught} == set(documented)
    page = (DOCS / "serve.md").read_text(encoding="utf-8")
    mistakes = page.partition("## Mistakes\n")[2].partition("\n## ")[0]
    kinds = [getattr(refusals, name) for name in error_names() - caught - {"StagewiseError"}]
    assert len(kinds) > 5
    for kind in kinds:
        assert kind is refusals.Refusal or str(kind.status) in mistakes, kind


def test_errors_are_found_with_all_that_derive_from_them(extensions):
    from error_messages import error_names, messages

    def subclasses(kind):
        return {kind, *(each for below in kind.__subclasses__() for each in subclasses(below))}

    for module in ("stagewise.serve.refusals", "stagewise.client", "stagewise.world.checks"):
        pytest.importorskip(module)
    named = {kind.__name__ for kind in subclasses(stagewise.StagewiseError)}
    assert {name for name in named if not name.startswith("_")} <= error_names()
    assert any("its policy follows no plan" in text for text, _ in messages("stagewise.serve"))


def test_every_symbol_has_its_line(extensions):
    """Found in the source, and, where it can be imported, in the module."""
    from importlib import import_module

    from symbols import line_of, read

    page = (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```\{symbols\}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    found = read(block.splitlines())
    assert len(found) > 50
    for symbol in found:
        path, _, number = line_of(symbol.object).partition(":")
        line = (ROOT / "src" / "stagewise" / path).read_text().splitlines()[int(number) - 1]
        last = symbol.name.rpartition(".")[2]
        assert last in line
        if "training" not in symbol.object:  # needs PyTorch
            thing = import_module(symbol.object.partition(":")[0])
            for part in symbol.name.split("."):
                thing = getattr(thing, part, None) or thing.__annotations__[part]


def test_a_symbol_that_is_not_there_is_an_error(extensions):
    from symbols import line_of

    with pytest.raises(LookupError, match="no 'kld_least'"):
        line_of("stagewise.world.parts:Limits.kld_least")


def test_every_command_and_option_is_described(extensions):
    from command_line import commands, described

    text = "\n".join(line for command in commands() for line in described(command, "stagewise", 2))
    assert "## stagewise plan\n" in text
    assert "### stagewise deploy up\n" in text
    assert "| `SCENARIO` | Scenario file; - is standard input. | required |" in text
    assert "| `--method` | pool, local-search, or paper: Algs. 2 and 3. | `pool` |" in text
    undescribed = re.findall(r"^\| (`.*`) \|  \|", text, re.MULTILINE)
    assert undescribed == []


def test_messages_are_read_from_the_source(extensions):
    from error_messages import messages

    found = dict(messages("stagewise.policies"))
    assert "policy ‹`self.title`›: must be one that follows a plan" in found
    assert found["policy ‹`self.title`›: must be one that follows a plan"].startswith(
        "policies/policy.py:"
    )
    assert len(list(messages("stagewise.world"))) > 50


def test_licences_are_found_for_all_that_we_ask_for(extensions, tmp_path):
    from licences import PROJECT, asked_for, licence

    project = tmp_path / "pyproject.toml"
    project.write_text(
        "[project]\ndependencies = ['numpy>=1']\n[project.optional-dependencies]\n"
        "a = ['stagewise-hfl[b]', \"plain-name[x]>=2; sys_platform != 'win32'\"]\n"
        "b = ['numpy', 'other']\n"
    )
    assert asked_for(project) == {"numpy": ["", "b"], "plain-name": ["a"], "other": ["b"]}
    assert "not installed" in licence("no-package-of-this-name")
    ours = {name for name, uses in asked_for(PROJECT).items() if "" in uses}
    assert {"numpy", "numba", "highspy"} <= ours
    for name in ours:
        assert "BSD" in licence(name) or "MIT" in licence(name) or "Apache" in licence(name), name


def test_tutorials_are_listed(extensions):
    from tutorial_order import ORDER

    assert sorted(ORDER) == sorted(path.name for path in DOCS.glob("tutorials/plot_*.py"))


@pytest.mark.parametrize("first", [DOCS / "index.md", ROOT / "README.md"], ids=lambda p: p.name)
@pytest.mark.parametrize("page", ["policy-in-a-flower-app", "run-edges", "what-is-measured"])
def test_who_knows_flower_finds_it_within_two_clicks(first, page):
    def links(pages: set[Path]) -> set[Path]:
        """The pages that some pages link to."""
        return {
            (one.parent / target).resolve()
            for one in pages
            if one.suffix == ".md"
            for target in re.findall(r"\]\(([^)#\s]+\.md)", one.read_text(encoding="utf-8"))
        }

    once = links({first})
    assert DOCS / "how-to" / f"{page}.md" in once | links(once)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))], ids=str
)
def test_links_lead_somewhere(page):
    """On a code host, too; those to pages that the build makes are checked by the build."""
    if "gallery" in page.parts:
        return
    text = page.read_text(encoding="utf-8")
    pictures = re.findall(r'\b(?:src|srcset)="([^"]+)"', text)
    for target in [*re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text), *pictures]:
        if "://" not in target:
            assert (page.parent / target).exists(), target


COLUMNS = {
    "cost over the certified optimum": "cost over the optimum's",
    "feasible rounds": "feasible rounds (%)",
    "clients": "clients",
    "decision (ms)": "decision time (ms)",
    "99%, longest (ms)": "decision time (ms)",
}
"""What README and comparison.md call the columns of the result."""


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "comparison.md"], ids=lambda p: p.name)
def test_the_table_of_methods_is_that_of_the_result(page):
    from stagewise_experiments.names import policy_name

    measured = rows_of(DOCS / "results/full/fig-optimality/table.md", "policy")
    told = rows_of(page, "method")
    assert len(told) > 5
    for name, row in told.items():
        found = measured[policy_name(re.findall(r"`([^`]+)`", name)[0])]
        for heading, text in row.items():
            value, _, tail = found[COLUMNS[heading]].partition("; ")
            if heading.startswith("99%"):
                numbers = map(float, re.findall(r"(?:99%|longest) ([\d.]+)", tail))
                assert [float(number) for number in text.split(", ")] == list(numbers), name
                continue
            assert says_the_same(text.strip("*"), value), (name, heading)


def rows_of(page: Path, heading: str) -> dict[str, dict[str, str]]:
    """The first table whose first column has that heading: rows by name, cells by heading."""
    _, _, rest = page.read_text(encoding="utf-8").partition(f"| {heading} |")
    lines = f"| {heading} |{rest}".partition("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(zip(cells[0][1:], row[1:], strict=True)) for row in cells[2:]}


def says_the_same(text: str, measured: str) -> bool:
    """Whether the numbers of `text` are those of `measured`, rounded; without any, there are none."""
    told, found = (re.findall(r"\d+(?:\.\d+)?", each) for each in (text, measured))
    if not told:
        return measured == "never feasible"
    digits = [len(number.partition(".")[2]) for number in told]
    return len(found) >= len(told) and all(
        abs(float(one) - float(other)) <= 0.5 * 10.0**-places + 1e-9
        for one, other, places in zip(told, found, digits, strict=False)
    )


def test_rounding_is_not_another_number():
    assert says_the_same("1.003 ± 0.004", "1.0026 ± 0.0042")
    assert not says_the_same("1.002 ± 0.004", "1.0026 ± 0.0042")
    assert says_the_same("1.003 (1.000 to 1.007)", "1.0026 (1.0000 to 1.0068)")
    assert not says_the_same("keeps no limit on KLD", "1.5 ± 0.1")
    assert not says_the_same("1.5", "never feasible")
