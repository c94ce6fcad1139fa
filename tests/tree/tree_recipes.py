"""Fits with another recipe than that of the parameters."""

from collections.abc import Callable
from dataclasses import replace

from usnrt import USNRTRegressor
from usnrt.tree.recipe import QuantileTreeRecipe


def change_recipe(change: Callable[[QuantileTreeRecipe], QuantileTreeRecipe], set_attribute=setattr):
    """Let all default trees be fitted with the changed recipe; ``set_attribute`` may be that of monkeypatch."""
    model_recipe = USNRTRegressor._model_recipe

    def changed(self):
        recipe = model_recipe(self)
        return replace(recipe, tree=change(recipe.tree))

    set_attribute(USNRTRegressor, "_model_recipe", changed)
