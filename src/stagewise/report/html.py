"""The templates of pages: those of a package, and the layout that all pages share."""

from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

_SHARED = "stagewise.report"


@cache
def environment(package: str = _SHARED) -> Environment:
    """The templates in the folder `templates` of `package`, and ours; values in them are escaped."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, _SHARED))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
