"""Estimators with regions: what users ask of the tree, explanations and export."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from usnrt.estimators.supported import SupportedRegressor
from usnrt.tree.rules import rules_table
from usnrt.utils.result_table import Table
from usnrt.utils.types import Floats

if TYPE_CHECKING:
    from onnx import ModelProto

    from usnrt.explain.explanation import Explanation


class RegionRegressor(SupportedRegressor):
    """An estimator whose tree divides the feature space into regions."""

    # Weights of the experts in each region, shape (n_leaves, 3); None for models without experts.
    expert_weights_: Floats | None = None
    # Encoded rows that `explain` compares rows with, shape (n_leaves + 1, n_background, n_encoded); the last sample is
    # that of the whole table. None for the paper's estimators and for models of old files.
    background_: Floats | None = None

    @property
    def n_leaves_(self) -> int:
        """Number of regions."""
        return self.tree_.n_leaves

    def apply(self, X: Any) -> NDArray[np.int64]:
        """The id of the region that each row falls in.

        The same id is in `rules`, `predict_table`, `export_text`, plots, reports and ONNX graphs. It is the number of
        the region's node in the tree, so it is also a column of `decision_path`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        raw = self._encode(X)
        return self.tree_.apply(raw)

    def decision_path(self, X: Any) -> Any:
        """The nodes of the tree that each row passes, its region included.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_samples, n_nodes)
            1 where a row passes a node; the last one is the row's region, ``apply(X)``.
        """
        raw = self._encode(X)
        return self.tree_.decision_path(raw)

    def get_depth(self) -> int:
        """The largest depth of a region."""
        check_is_fitted(self)
        return self.tree_.max_depth

    def get_n_leaves(self) -> int:
        """Number of regions."""
        check_is_fitted(self)
        return self.n_leaves_

    @property
    def heterogeneity_(self) -> float:
        """Standard deviation of the logarithms of the regions' residual standard deviations (the paper's measure)."""
        leaves = self.tree_.feature < 0
        return float(np.std(np.log(np.maximum(self.tree_.residual_std[leaves], np.finfo(float).tiny))))

    def rules(self) -> Table:
        """The regions as a table.

        Returns
        -------
        Table
            One row per region: ``region`` (its id, as from `apply`), ``rule`` (in words), ``rows`` and ``share`` of
            the training rows, ``residual_std`` in the target's units, and the splits on its path (``statistic``,
            ``log10_p`` of the last one, ``statistics``, ``log10_ps`` of all). For models with experts also their
            weights (``network``, ``guided`` and ``memory``, averaged over the members of an ensemble) and ``experts``,
            the weights in words.
        """
        check_is_fitted(self)
        return rules_table(self.tree_, self.columns_, expert_weights=self.expert_weights_)

    def explain(
        self,
        X: Any,
        *,
        coverage: float = 0.9,
        baseline: str = "region",
        n_neighbors: int = 5,
        background: Any = None,
        rounds: int = 1,
        random_state: int = 0,
    ) -> "Explanation":
        """Why each row has its predicted mean and standard deviation, and what would narrow its interval.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        coverage : float, default=0.9
            Nominal coverage of the intervals.
        baseline : {"region", "table"}, default="region"
            Contributions explain the difference from the average prediction in the row's region, or in the whole
            table. Features that only determine the region contribute to the second only.
        n_neighbors : int, default=5
            Number of similar training rows, if the model has a memory.
        background : array-like or data frame, default=None
            Rows whose average prediction is the baseline; by default those that the model kept in `fit`: some training
            rows, or quantiles of each column with ``memory=False``. The paper's estimators and models of old files
            keep none.
        rounds : int, default=1
            Each background row is used with this many pairs of permutations; the standard errors of the contributions
            fall with its square root.
        random_state : int, default=0
            Seed of the permutations.

        Returns
        -------
        Explanation
            One `usnrt.explain.RowExplanation` per row: ``explanation[0]`` prints one; ``to_frame()`` and ``to_dict()``
            return all.

        Examples
        --------
        >>> import numpy as np
        >>> from usnrt import USNRTRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, (600, 2))
        >>> y = X[:, 1] + np.where(X[:, 0] > 0, 1.0, 0.1) * rng.normal(size=600)
        >>> model = USNRTRegressor(min_samples_leaf=200, max_epochs=30, random_state=0).fit(X, y)
        >>> row = model.explain([[0.5, 0.5]], baseline="table")[0]
        >>> max(row.std_contributions, key=row.std_contributions.get)
        'x0'
        >>> total = row.base_mean + sum(row.mean_contributions.values()) + row.mean_adjustment
        >>> bool(np.isclose(total, model.predict([[0.5, 0.5]])[0]))
        True
        """
        from usnrt.explain.rows import explain_rows

        return explain_rows(
            self, X, coverage, baseline, n_neighbors=n_neighbors, background=background, rounds=rounds,
            seed=random_state,
        )  # fmt: skip

    def to_onnx(self, path: Any = None, *, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> "ModelProto":
        """The model as one ONNX graph, from unprocessed rows to predictions, for other languages.

        Inputs: if all columns are numeric, one matrix ``X`` of shape (n, n_features), float64. Otherwise one input of
        shape (n,) per column, under its name: numbers as float64, text as strings, dates as int64 microseconds of wall
        time since 1970. A missing value is NaN, the empty string or the smallest int64 (see the description of each
        input); `usnrt.onnx.feeds` makes all inputs from a table. An underscore is appended to the name of an input that
        is also the name of an output. Categories that training did not see and values beyond all thresholds are handled
        as in the library; an infinite number is not rejected but treated as a very large one.

        Outputs: ``mean`` and ``std`` of shape (n,), ``region`` of shape (n,) as from `apply`, ``quantiles`` of shape
        (n, k) as from `predict_quantiles`, and ``supported`` of shape (n,) as from `predict_support`.

        The graph of a model with a memory contains training data, see the parameter ``memory``.

        Parameters
        ----------
        path : path-like, optional
            The file to write, conventionally with the extension ``.onnx``; None to write no file.
        levels : sequence of k floats, default=(0.05, 0.5, 0.95)
            Levels of the quantiles, in (0, 1).

        Returns
        -------
        onnx.ModelProto
        """
        from usnrt.onnx import to_onnx

        return to_onnx(self, path, levels=levels)
