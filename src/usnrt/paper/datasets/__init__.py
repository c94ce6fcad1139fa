"""The paper's 17 data sets from UCI, and its splits."""

from usnrt.paper.datasets.loaders import SEEDS, available_datasets, fetch, list_datasets, seeds_for, train_test_rows
from usnrt.paper.datasets.specs import Spec, get_spec

__all__ = ["SEEDS", "Spec", "available_datasets", "fetch", "get_spec", "list_datasets", "seeds_for", "train_test_rows"]
