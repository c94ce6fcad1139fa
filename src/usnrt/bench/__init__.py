"""The paper's experiments: a grid of (data set, recipe, split seed) that can be run, resumed, shared and reported."""

from usnrt.bench.grid import Cell, load_split, make_grid, preset
from usnrt.bench.recipes import RECIPES, Recipe, get_recipe
from usnrt.bench.runner import Summary, run_grid
from usnrt.bench.store import Record, Store

__all__ = [
    "RECIPES",
    "Cell",
    "Recipe",
    "Record",
    "Store",
    "Summary",
    "get_recipe",
    "load_split",
    "make_grid",
    "preset",
    "run_grid",
]
