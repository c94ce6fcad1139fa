"""Data sets: the paper's 17 from UCI, and generated ones with known noise."""

from usnrt.datasets.generators import Truth, make_heteroscedastic
from usnrt.datasets.loaders import available_datasets, fetch, list_datasets
from usnrt.datasets.specs import Spec, get_spec
from usnrt.datasets.splits import SEEDS, seeds_for, train_test_rows

__all__ = [
    "SEEDS",
    "Spec",
    "Truth",
    "available_datasets",
    "fetch",
    "get_spec",
    "list_datasets",
    "make_heteroscedastic",
    "seeds_for",
    "train_test_rows",
]
