"""Right-to-left names inside sentences: isolated, or they would reverse the signs and numbers beside them."""

import re
from html import escape as escape_html

# Hebrew, Arabic, Syriac, Thaana, N'Ko and their presentation forms.
_RTL = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
_RUN = re.compile(f"[{_RTL}](?:[{_RTL}\\s_-]*[{_RTL}])?")
FIRST_STRONG_ISOLATE, POP_ISOLATE = "\u2068", "\u2069"


def isolated(text: str) -> str:
    """The text with its right-to-left runs isolated.

    Examples
    --------
    >>> from usnrt.reporting._bidi import isolated
    >>> isolated("area <= 5") == "area <= 5", ascii(isolated("5 < \u05d0\u05d1 <= 7"))
    (True, "'5 < \\\\u2068\\\\u05d0\\\\u05d1\\\\u2069 <= 7'")
    """
    if text.isascii():
        return text
    return _RUN.sub(lambda found: f"{FIRST_STRONG_ISOLATE}{found[0]}{POP_ISOLATE}", text)


def escape(text: str) -> str:
    """The text for HTML and SVG, with its right-to-left runs isolated."""
    return escape_html(isolated(text))
