"""Pictures in executed pages."""

import io
import re


def picture(figure, alt):
    """Return a matplotlib figure as HTML for a block with ``html="1"``, and close it.

    ``print(picture(figure, "What it shows"))``
    """
    import matplotlib.pyplot as plt

    text = io.StringIO()
    with plt.rc_context({"svg.hashsalt": alt, "svg.fonttype": "path"}):
        figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    svg = re.sub(r"^.*?(?=<svg)", "", text.getvalue(), flags=re.DOTALL)
    # ids of several pictures on one page must differ
    prefix = re.sub(r"\W+", "-", alt.lower())[:40]
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{prefix}-", svg)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{alt}" ', 1)
    return f'<div class="usnrt-picture">{svg}</div>'
