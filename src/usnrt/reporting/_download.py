"""All rows with their predictions as a CSV file inside the page."""

import base64
import csv
import io

import numpy as np

from usnrt.reporting._facts import Facts

MAX_BYTES, MIN_LINE = 1_500_000, 14


def csv_link(facts: Facts, target: str) -> str:
    """A data: address of a CSV file of all rows, or "" if it were too long for a page.

    Parameters
    ----------
    target : str
        Name of the target.
    """
    # Before the text of a million rows is made, which takes seconds; a row has at least this many characters.
    if MIN_LINE * facts.n > MAX_BYTES:
        return ""
    columns = {
        facts.labels.name: facts.labels.texts,
        target: _texts(facts.y),
        "mean": _texts(facts.mean),
        "std": _texts(facts.std),
        "lower": _texts(facts.lower),
        "upper": _texts(facts.upper),
    }
    names, values = list(columns), list(columns.values())
    if facts.region is not None:
        names, values = [*names, "region"], [*values, facts.region.tolist()]
    if facts.supported is not None:
        names, values = [*names, "supported"], [*values, facts.supported.tolist()]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*values))
    text = file.getvalue().encode()
    return "" if len(text) > MAX_BYTES else f"data:text/csv;base64,{base64.b64encode(text).decode()}"


def _texts(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> list[str]:
    return [f"{value:.9g}" for value in values.tolist()]
