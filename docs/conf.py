"""The site: `make docs` builds it into build/docs, warnings as errors."""

import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

import stagewise  # noqa: E402

project = "Stagewise"
author = "the Stagewise authors"
copyright = "the Stagewise authors, Apache-2.0"
version = release = stagewise.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
    "command_line",
    "error_messages",
    "licences",
    "symbols",
]
# The build needs no network: names of Python lead to its documentation where that is installed
# (Debian's python3-doc), and are plain text elsewhere.
python_inventory = Path("/usr/share/doc/python3/html/objects.inv")
if python_inventory.exists():
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {"python": ("https://docs.python.org/3", str(python_inventory))}
exclude_patterns = ["tutorials", "extensions", "results/full/*/table.md", "gallery/**.ipynb"]
nitpicky = True
nitpick_ignore_regex = [
    # Of other projects' names, Python's alone may be known.
    (
        r"py:class",
        r"(collections|concurrent|flwr|matplotlib|msgspec|numpy|pathlib|pd|torch)\..*|Axes",
    ),
    # Types of our own that have no entry in the reference; signatures still show their names.
    (
        r"py:class",
        r"stagewise\.("
        r"bounds\.BoundRecord|datasets\.dataset\.Float|datasets\.partitioning\.Partition"
        r"|decisions\.DecisionRecord|exact\.prices\.Prices|instances\.catalogue\.Size"
        r"|loop\.Carrier|outcomes\.TrainingFigures"
        r"|plans\.PlanRecord|policies\.policy\.PolicyFactory|policies\.replanned\.PlanStore"
        r"|pool\.library\.Library|problem\.evaluation\.Evaluation|robust\.safeguards\.Safeguards"
        r"|runs\.config\.RunConfig|runs\.records\.RoundRecord|training\.task\.Evaluation"
        r"|world\.costs\.LinkCosts|world\.trace\.Trace)",
    ),
    (r"py:class", r"BoundRecord|DecisionRecord|ModelBuilder|OnlineRounds|PlanRecord"),
]

# Docstrings name code in single backquotes.
default_role = "code"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"Stagewise {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1b6ca8", "color-brand-content": "#1b6ca8"},
    "dark_css_variables": {"color-brand-primary": "#7cc0ee", "color-brand-content": "#7cc0ee"},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
suppress_warnings = ["config.cache"]

sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "tutorial_order.AsListed",
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 0,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "default_thumb_file": str(HERE / "images" / "round.png"),
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
    "parallel": True,
}


def use_anchors(app, name: str, text: list[str]) -> None:
    """Anchors written as HTML, which code hosts understand, as targets that MyST checks."""
    text[0] = re.sub(r'^<a id="([\w-]+)"></a>$', r"(\1)=", text[0], flags=re.MULTILINE)


def short_types(app, what, name, obj, options, signature: str | None, returns: str | None):
    """Arrays without their shapes and types, and defaults that are made by a factory as `...`."""

    def shortened(text: str | None) -> str | None:
        if text is None:
            return None
        array = r"ndarray\[tuple\[[^\]]*\], [~\w.]*dtype\[[^\]]*\]\]"
        return re.sub(array, "ndarray", text.replace("<factory>", "..."))

    return shortened(signature), shortened(returns)


def setup(app) -> None:
    app.connect("autodoc-process-signature", short_types)
    app.connect("source-read", use_anchors)
