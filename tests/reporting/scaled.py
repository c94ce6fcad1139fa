"""The sample model with its target in other units: predictions are those of the sample, scaled."""

from copy import copy
from dataclasses import replace


def with_target(model, factor=1.0, shift=0.0, name=None):
    """A model of ``factor * y + shift``; returns it and a function for the targets."""
    scaled = copy(model)
    fitted = model.model_
    target = replace(fitted.target, mean=factor * fitted.target.mean + shift, std=abs(factor) * fitted.target.std)
    tree = copy(fitted.tree)
    tree.residual_std, tree.residual_mean = abs(factor) * tree.residual_std, factor * tree.residual_mean
    scaled.model_ = replace(fitted, target=target).with_tree(tree)
    scaled.target_name_ = name or model.target_name_
    return scaled, lambda y: factor * y + shift
