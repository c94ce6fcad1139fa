"""Prediction of networks: equal to the encoded products, whatever other rows and threads there are."""

import threading

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import CHUNK, GroupedNetworks, forward, predict
from usnrt.nn.mlp import MLP
from usnrt.utils.threads import ONE_BLAS_THREAD

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
    found = GroupedNetworks(network, groups).predict(x, group, rows=rows)
    assert found.shape == (4, 2)
    for outputs, row in zip(found, rows):
        np.testing.assert_array_equal(outputs, predict(network, groups[group[row]], x[row : row + 1])[0])
    assert GroupedNetworks(network, groups).predict(x, group, rows=rows[:0]).shape == (0, 2)


def outputs_by_products(params, encoding, x):
    """The outputs of a relu network in double precision, from the encoded matrix."""
    x = np.asarray(x if encoding is None else encoding(x), dtype=np.float64)
    for weights, bias in params[:-1]:
        x = np.maximum(x @ weights.astype(np.float64) + bias, 0.0)
    weights, bias = params[-1]
    return x @ weights.astype(np.float64) + bias


def awkward_table(rng):
    """Heavy tails, few distinct values, a constant, near-constant and narrow columns, one-hot columns, an outlier."""
    n = 1500
    x = np.column_stack(
        [
            rng.normal(size=n),
            rng.standard_t(2, size=n),
            rng.integers(0, 3, size=n) - 1.0,
            np.zeros(n),
            np.where(np.arange(n) == 7, 30.0, 0.0),
            np.where(rng.random(n) < 0.5, 1e-4 * rng.normal(size=n), 3.0),
            np.eye(4)[rng.integers(0, 4, size=n)],
        ]
    ).astype(np.float32)
    return x, np.arange(6)


@pytest.mark.parametrize("hidden", [(), (5,), (40, 24), (256, 128, 64)])
@pytest.mark.parametrize("n_bins", [0, 3, 16])
def test_the_interpolated_first_layer_is_the_encoded_product(hidden, n_bins):
    rng = np.random.default_rng(3)
    x, columns = awkward_table(rng)
    encoding = PiecewiseLinear.fit(x, columns, n_bins) if n_bins else None
    network = MLP((encoding.n_outputs if encoding else x.shape[1], *hidden, 12))
    params = tuple((weights, rng.normal(size=bias.shape).astype(np.float32)) for weights, bias in network.init(rng))
    asked = np.concatenate([x[:300], x[:300] * 1.7, 1e6 * np.sign(x[:50]), rng.normal(size=(200, 10)) * 4])
    asked = asked.astype(np.float32)
    found = predict(network, params, asked, encoding=encoding)
    expected = outputs_by_products(params, encoding, asked)
    np.testing.assert_allclose(found, expected, atol=2e-5 * max(1.0, np.abs(expected).max()))


def test_an_encoding_without_columns():
    rng = np.random.default_rng(0)
    x = np.eye(3, dtype=np.float32)
    encoding = PiecewiseLinear.fit(x, np.zeros(0, dtype=np.int64), 16)
    network = MLP((3, 8, 2))
    params = network.init(rng)
    found = predict(network, params, x, encoding=encoding)
    np.testing.assert_allclose(found, outputs_by_products(params, encoding, x), atol=1e-6)


def test_numbers_at_the_edges_of_bins():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2)).astype(np.float32)
    encoding = PiecewiseLinear.fit(x, np.arange(2), 16)
    network = MLP((encoding.n_outputs, 8))
    params = network.init(rng)
    edges = np.quantile(x.astype(np.float64), np.linspace(0, 1, 17), axis=0).astype(np.float32)
    asked = np.concatenate([edges, np.nextafter(edges, np.float32(9)), np.nextafter(edges, np.float32(-9)), [[5, -5]]])
    found = predict(network, params, asked.astype(np.float32), encoding=encoding)
    np.testing.assert_allclose(found, outputs_by_products(params, encoding, asked.astype(np.float32)), atol=1e-5)


@pytest.mark.parametrize("shape", [(12, 48), (200, 256), (64, 11), (3, 1)])
def test_the_bits_of_a_row_do_not_depend_on_its_position(shape):
    rng = np.random.default_rng(1)
    network = MLP((*shape, 2))
    params = network.init(rng)
    x = rng.normal(size=(CHUNK, shape[0])).astype(np.float32)
    order = rng.permutation(CHUNK)
    np.testing.assert_array_equal(forward(network, params, x[order]), forward(network, params, x)[order])
    np.testing.assert_array_equal(forward(network, params, x[5:6]), forward(network, params, x)[5:6])


def test_tables_that_are_read_only_or_in_fortran_order():
    rng = np.random.default_rng(1)
    network = MLP((3, 8, 1))
    params = network.init(rng)
    x = rng.normal(size=(50, 3)).astype(np.float32)
    frozen = np.asfortranarray(x)
    frozen.flags.writeable = False
    np.testing.assert_array_equal(predict(network, params, frozen), predict(network, params, x))


def test_networks_that_do_not_fit_are_refused_before_kernels():
    def ones(*shape):
        return np.ones(shape, dtype=np.float32)

    x = ones(4, 3)
    fitting = ((ones(3, 5), ones(5)), (ones(5, 1), ones(1)))
    assert predict(MLP((3, 5, 1)), fitting, x).shape == (4,)
    with pytest.raises(ValueError, match="^the layers of a network must fit together"):
        predict(MLP((3, 5, 1)), ((ones(3, 5), ones(5)), (ones(900, 1), ones(1))), x)
    with pytest.raises(ValueError, match="^the network must have as many inputs and outputs as its tables, got 900"):
        predict(MLP((3, 5, 1)), ((ones(900, 5), ones(5)), (ones(5, 1), ones(1))), x)
    with pytest.raises(ValueError, match="got 3 and 9 for 3 and 1$"):
        predict(MLP((3, 5, 1)), ((ones(3, 5), ones(5)), (ones(5, 9), ones(9))), x)
