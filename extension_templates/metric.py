"""Template of a metric: copy this file, replace the function, import the copy.

Within the library the file belongs in ``src/usnrt/metrics``, and the one line to add is its import in
``src/usnrt/metrics/__init__.py``. In your own project import it before you evaluate. From then on
`usnrt.evaluate`, `usnrt.metrics.get_scorer`, reports and comparisons of models have the metric.
"""

import numpy as np

from usnrt.metrics.registry import EvaluatedRows, Metric, register_metric
from usnrt.utils.types import Floats


def absolute_error_of_median(rows: EvaluatedRows) -> Floats:
    """The value of each row, shape (n,); the metric is the (weighted) mean.

    ``rows.y`` are the targets and ``rows.forecast`` has ``mean()``, ``std()``, ``quantile(levels)``, ``cdf(y)``,
    ``logpdf(y)`` and ``crps(y)``. A forecast that lacks what you ask for leaves your metric out.
    """
    return np.abs(rows.y - rows.forecast.quantile(np.array([0.5]))[:, 0])


MEDIAN_ERROR = register_metric(
    Metric(
        name="median_error",
        label="median error",
        meaning="mean absolute error of the predicted median",
        orientation="lower",
        per_row=absolute_error_of_median,
    )
)
