"""The name of a model's target column, which reports and the command line show.

A fit sees an array of targets without a name. Callers that have one record it with `set_target_name`; it is saved in
model files with the fitted attributes.
"""

from usnrt.estimators.base import DistributionalRegressor

ATTRIBUTE = "target_name_"


def set_target_name(model: DistributionalRegressor, name: str) -> None:
    """Record the name of the target column on a fitted model.

    Parameters
    ----------
    model : DistributionalRegressor
        A fitted model; its attribute ``target_name_`` is set.
    name : str

    Examples
    --------
    >>> from usnrt import USNRTRegressor
    >>> from usnrt.estimators.target_name import set_target_name, target_name
    >>> model = USNRTRegressor()
    >>> target_name(model) is None
    True
    >>> set_target_name(model, "price")
    >>> target_name(model)
    'price'
    """
    setattr(model, ATTRIBUTE, name)


def target_name(model: DistributionalRegressor) -> str | None:
    """The recorded name of the target column, None if there is none."""
    name: str | None = getattr(model, ATTRIBUTE, None)
    return name
