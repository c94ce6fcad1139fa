"""Pipelines that keep the predictions of their last step: intervals, distributions, quantiles, tables."""

from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from usnrt.estimators.predictions import like_frame
from usnrt.utils.result_table import Table
from usnrt.utils.types import TableLike

MethodT = TypeVar("MethodT", bound=Callable[..., Any])


def in_pipeline(pipeline: Pipeline) -> "DistributionalPipeline":
    """A pipeline with ``predict_interval``, ``predict_dist`` and the other predictions of its last step.

    Parameters
    ----------
    pipeline : sklearn.pipeline.Pipeline
        Ending in an estimator of this library, fitted or not. Its steps are used as they are, not copied.

    Returns
    -------
    DistributionalPipeline
        A scikit-learn pipeline with the same steps and parameters.

    Examples
    --------
    >>> import numpy as np
    >>> import usnrt
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (200, 2))
    >>> y = X[:, 0] + 0.1 * rng.normal(size=200)
    >>> quick = usnrt.USNRTRegressor.fast(max_epochs=5, random_state=0)
    >>> model = usnrt.in_pipeline(make_pipeline(StandardScaler(), quick)).fit(X, y)
    >>> model.predict_interval(X[:3], 0.8).shape
    (3, 2)
    """
    if not isinstance(pipeline, Pipeline):
        raise TypeError(f"pipeline must be a scikit-learn Pipeline, got a {type(pipeline).__name__}")
    last = pipeline.steps[-1][1]
    if not hasattr(last, "predict_dist"):
        raise TypeError(f"pipeline must end in an estimator with predict_dist, got a {type(last).__name__}")
    parameters = {name: value for name, value in pipeline.get_params(deep=False).items() if name != "steps"}
    return DistributionalPipeline(pipeline.steps, **parameters)


def _if_last_has(name: str) -> Callable[[MethodT], MethodT]:
    """Decorator: the pipeline has the method only if its last step has one of this name."""

    def check(pipeline: Any) -> bool:
        return callable(getattr(pipeline.steps[-1][1], name, None))  # baselines have a parameter "calibrate"

    decorator: Callable[[MethodT], MethodT] = available_if(check)
    return decorator


def _delegated(name: str, summary: str) -> Any:
    """A method that transforms X by all steps but the last, and calls the method of the last step."""

    def method(self: Any, X: TableLike, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.steps[-1][1], name)(self._transformed(X), *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"{summary}: that of the last step, on transformed rows; arguments as there."
    return _if_last_has(name)(method)


class DistributionalPipeline(Pipeline):  # scikit-learn is untyped
    """A scikit-learn pipeline with all predictions of its last step; made by `usnrt.in_pipeline`.

    Examples
    --------
    >>> from usnrt import USNRTRegressor
    >>> hasattr(DistributionalPipeline([("model", USNRTRegressor())]), "predict_quantiles")
    True
    """

    def _transformed(self, X: TableLike) -> Any:
        return self[:-1].transform(X) if len(self.steps) > 1 else X

    predict_dist = _delegated("predict_dist", "Predictive distributions")
    predict_interval = _delegated("predict_interval", "Prediction intervals")
    predict_quantiles = _delegated("predict_quantiles", "Quantiles")
    predict_variance = _delegated("predict_variance", "Variance and its parts")
    predict_support = _delegated("predict_support", "Support by the training rows")
    apply = _delegated("apply", "Region ids")
    explain = _delegated("explain", "Explanations")

    @_if_last_has("predict_table")
    def predict_table(self, X: TableLike, coverage: float = 0.9) -> Any:
        """Mean, standard deviation, interval, region and support as a table of the library that X came from."""
        predicted = self.steps[-1][1].predict_table(self._transformed(X), coverage)
        if isinstance(predicted, Table):  # the transformers returned arrays
            return like_frame(dict(predicted), X)
        return predicted

    @_if_last_has("calibrate")
    def calibrate(self, X: TableLike, y: Any, *args: Any, **kwargs: Any) -> "DistributionalPipeline":
        """Calibrate the last step on new rows; arguments as there."""
        self.steps[-1][1].calibrate(self._transformed(X), y, *args, **kwargs)
        return self

    @_if_last_has("rules")
    def rules(self, *args: Any, **kwargs: Any) -> Any:
        """The regions of the last step, in terms of transformed features; arguments as there."""
        return self.steps[-1][1].rules(*args, **kwargs)
