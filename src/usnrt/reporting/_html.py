"""Pages as self-contained HTML files: templates of jinja2 in the frame and the style of the report."""

import os
import time
from importlib.resources import files
from typing import Any

from usnrt._version import __version__
from usnrt.reporting._numbers import number, percent, plus_minus
from usnrt.reporting._svg import isolated, shortened

MAX_NAME = 40  # characters of a column's name in the head of a table


def render_page(package: str, **values: Any) -> str:
    """The ``page.html`` of a package with its ``page.css`` and ``page.js``, filled with values.

    Text is escaped, and its right-to-left runs are isolated. Templates have the filters of `_numbers`.
    """
    try:
        from jinja2 import Environment, PackageLoader
        from markupsafe import Markup
    except ImportError as error:
        raise ImportError("the page needs jinja2: pip install 'usnrt[report]'") from error

    environment = Environment(
        loader=PackageLoader("usnrt", ""),
        autoescape=True,
        trim_blocks=False,
        finalize=lambda value: isolated(value) if type(value) is str else value,
    )
    environment.filters |= {
        "number": number,
        "percent": percent,
        "count": lambda n: f"{n:,}",
        "short": lambda name: shortened(name, MAX_NAME, 1.0),
    }
    environment.globals["plus_minus"] = plus_minus
    folders = dict.fromkeys((files("usnrt.reporting"), files(f"usnrt.{package}")))
    css = "".join((folder / "page.css").read_text("utf-8") for folder in folders)
    script = files(f"usnrt.{package}") / "page.js"
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    return environment.get_template(f"{package}/page.html").render(
        **values,
        version=__version__,
        css=Markup(css),
        js=Markup(script.read_text("utf-8")) if script.is_file() else None,
        written=time.strftime(" on %Y-%m-%d at %H:%M UTC", time.gmtime(epoch)),
    )
