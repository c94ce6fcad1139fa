"""Aliases of types."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
#: From targets to the values that networks learn.
ScaleTarget = Callable[[Floats], Floats]

#: Rows of features: an array, or a table of pandas, polars or pyarrow; where documented also a path or a data set.
#: The libraries share no type, and none of them needs to be installed.
TableLike: TypeAlias = Any
