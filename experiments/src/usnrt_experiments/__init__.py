"""The paper's experiments: a grid of (data set, recipe, split seed) that can be run, resumed, shared and reported."""

from usnrt_experiments.grid import Cell, load_split, make_grid, preset
from usnrt_experiments.recipes import RECIPES, get_recipe
from usnrt_experiments.runner import Summary, run_grid
from usnrt_experiments.store import Record, Store

__all__ = [
    "RECIPES",
    "Cell",
    "Record",
    "Store",
    "Summary",
    "get_recipe",
    "load_split",
    "make_grid",
    "preset",
    "run_grid",
]
