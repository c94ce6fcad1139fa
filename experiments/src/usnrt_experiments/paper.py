"""The values of the paper's tables, as data."""

import json
from functools import lru_cache
from importlib.resources import files

from usnrt.paper.datasets import get_spec

PAPER_SPEARMAN = 0.44  # between the two columns of its heterogeneity table


@lru_cache(maxsize=1)
def _tables() -> dict[str, dict[str, dict[str, dict[str, float | str]]]]:
    tables: dict[str, dict[str, dict[str, dict[str, float | str]]]]
    tables = json.loads((files("usnrt_experiments") / "paper_tables.json").read_text())
    return tables


def paper_value(table: str, dataset: str, column: str) -> float | None:
    """One value of the paper.

    Parameters
    ----------
    table : str
        ``"ece"``, ``"tce"``, ``"sharpness"``, ``"rmse"``, ``"nll"``, ``"evidential_rmse"``, ``"evidential_nll"``,
        ``"heterogeneity"`` or ``"datasets"``.
    dataset : str
        A name of :func:`usnrt.paper.datasets.fetch`.
    column : str
        Header of the column in the paper.

    Returns
    -------
    float, or None if the paper has no such value

    Examples
    --------
    >>> from usnrt_experiments.paper import paper_value
    >>> paper_value("ece", "electrical", "HNN")
    3.74
    >>> paper_value("nll", "facebook1", "Concrete Dropout")
    inf
    """
    rows = _tables().get(table, {}).get("rows", {})
    value = rows.get(get_spec(dataset).title, {}).get(column)
    return None if value is None else float(value)
