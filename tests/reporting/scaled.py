"""The sample model with its target in other units: predictions are those of the sample, scaled."""

from copy import copy, deepcopy


def with_target(model, factor=1.0, shift=0.0, name=None):
    """A model of ``factor * y + shift``; returns it and a function for the targets."""
    scaled = copy(model)
    scaled.target_mean_ = factor * model.target_mean_ + shift
    scaled.target_std_ = abs(factor) * model.target_std_
    scaled.model_ = copy(model.model_)
    scaled.model_.tree = deepcopy(model.tree_)
    scaled.model_.tree.residual_std *= abs(factor)
    scaled.model_.tree.residual_mean *= factor
    scaled.target_name_ = name or model.target_name_
    return scaled, lambda y: factor * y + shift
