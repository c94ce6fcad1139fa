"""Prediction in numpy: BLAS is limited to one thread during any number of concurrent predictions, and restored."""

import threading

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from usnrt.nn.forward import CHUNK, forward, predict, predict_grouped, rows_per_product
from usnrt.nn.mlp import MLP
from usnrt.utils.blas import ONE_BLAS_THREAD

BLAS = ThreadpoolController().select(user_api="blas")


def blas_threads():
    return {library["num_threads"] for library in BLAS.info()}


def test_blas_is_restored_after_the_last_exit():
    with BLAS.limit(limits=2):
        before = blas_threads()
        with ONE_BLAS_THREAD:
            with ONE_BLAS_THREAD:
                assert blas_threads() == {1}
            assert blas_threads() == {1}, "another context is still active"
        assert blas_threads() == before


def test_blas_is_restored_after_an_error():
    with BLAS.limit(limits=2):
        before = blas_threads()
        with pytest.raises(RuntimeError, match="^inside$"), ONE_BLAS_THREAD:
            raise RuntimeError("inside")
        assert blas_threads() == before


def test_blas_is_restored_after_predictions_from_several_threads():
    network = MLP((5, 16, 1))
    params = network.init(np.random.default_rng(0))
    x = np.random.default_rng(1).standard_normal((8 * CHUNK, 5)).astype(np.float32)
    predictions = []
    with BLAS.limit(limits=2):
        before = blas_threads()
        threads = [
            threading.Thread(target=lambda n=n: predictions.append(predict(network, params, x, n_threads=n)))
            for n in (1, 2, 3, 4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert blas_threads() == before
    for other in predictions[1:]:
        np.testing.assert_array_equal(other, predictions[0])


def test_groups_without_rows_and_rows_out_of_order():
    network = MLP((3, 4, 2))
    groups = [network.init(np.random.default_rng(seed)) for seed in range(4)]
    x = np.random.default_rng(9).standard_normal((50, 3)).astype(np.float32)
    group = np.where(np.arange(50) % 2, 3, 1)  # no rows of groups 0 and 2
    rows = np.array([40, 3, 3, 12])
    found = predict_grouped(network, groups, x, group, rows=rows)
    assert found.shape == (4, 2)
    for outputs, row in zip(found, rows):
        np.testing.assert_array_equal(outputs, predict(network, groups[group[row]], x[row : row + 1])[0])
    assert predict_grouped(network, groups, x, group, rows=rows[:0]).shape == (0, 2)


@pytest.mark.parametrize("shape", [(12, 48), (200, 256), (64, 11), (3, 1)])
def test_the_bits_of_a_row_do_not_depend_on_its_position(shape):
    """On processors whose BLAS kernels treat rows differently by position, smaller blocks are multiplied."""
    rng = np.random.default_rng(1)
    network = MLP((*shape, 2))
    params = network.init(rng)
    x = rng.normal(size=(CHUNK, shape[0])).astype(np.float32)
    order = rng.permutation(CHUNK)
    np.testing.assert_array_equal(forward(network, params, x[order]), forward(network, params, x)[order])
    assert CHUNK % rows_per_product(*shape) == 0
