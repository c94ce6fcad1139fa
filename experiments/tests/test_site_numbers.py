"""Numbers in README and docs are those of the records."""

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "tools"))

from site_numbers import BLOCK, _seed_row, documents, fresh  # noqa: E402


def test_numbers_are_those_of_the_records():
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in documents()}
    assert len(BLOCK.findall("".join(texts.values()))) >= 5
    outdated = [name for name, text in texts.items() if fresh(text) != text]
    assert outdated == [], "run: python docs/tools/site_numbers.py"


def test_errors_are_taken_apart_into_splits_and_seeds():
    """By split and seed: n, mean, its error, means of one seed, the error of one, share of the seed, distance."""
    only_splits = _seed_row([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], 2.0)
    assert only_splits == ["2", "2.00", "0.58", "2.00 to 2.00", "0.58", "0 %", "2.00", "+0.0"]
    only_seeds = _seed_row([[1.0, 3.0], [3.0, 1.0], [1.0, 3.0]], 3.0)
    assert only_seeds[:6] == ["2", "2.00", "0.00", "1.67 to 2.33", "0.82", "100 %"]
    rng = np.random.default_rng(0)  # 400 splits of standard deviation 1, 3 seeds of standard deviation 2
    drawn = (rng.normal(size=(400, 1)) + 2 * rng.normal(size=(400, 3))).tolist()
    share = int(_seed_row(drawn, 0.0)[5].removesuffix(" %"))
    assert 73 <= share <= 87  # 80, and three standard errors of a variance of 800 degrees of freedom
