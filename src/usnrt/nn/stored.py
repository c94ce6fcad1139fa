"""How networks and what belongs to them are stored in model files and checkpoints; see `usnrt.utils.codec`."""

from itertools import pairwise
from typing import Any

import numpy as np

from usnrt.utils.codec import Classes, Codec, Stored
from usnrt.utils.schema import Array, Bool, Float, Int, Many, Text

TINY = 5e-324  # the smallest positive number
SIZE = 10**6  # no file holds the weights of a layer with more units

SIZES = Many(Int(1, SIZE), kind=tuple)
WEIGHT = Array("f4", None, -1e9, 1e9)  # far beyond those of any training; products of several are finite
LAYERS = Many(Many(WEIGHT, kind=tuple), kind=tuple)  # weights and biases of each layer


def _network(**fields: Any) -> Stored:
    module = "usnrt.nn.mlp" if "output" in fields else "usnrt.nn.dropout"
    ends = {"n_inputs": lambda network: network.sizes[0], "n_outputs": lambda network: network.sizes[-1]}
    return Stored(module, {"sizes": SIZES, **fields}, lambda network: len(network.sizes) >= 2, ends)


NETWORKS: Classes = {
    "MLP": _network(
        activation=Text(("relu", "tanh", "algebraic")),
        output=Text(("linear", "softplus", "exp")),
    ),
    "DropoutMLP": _network(rate=Float(0.0, 1.0)),
    "ConcreteDropoutMLP": _network(
        first_rate=Float(0.0, 1.0),
        temperature=Float(TINY),
        activation=Text(("relu", "elu")),
        separate_heads=Bool(),
    ),
    "PiecewiseLinear": Stored(
        "usnrt.nn.encoding",
        {
            "n_inputs": Int(1, SIZE, "n_inputs"),
            "kept": Array("i8", (None,), low=0, below="n_inputs", order="strictly ascending", filled=True),
            "columns": Array("i8", ("n_columns",), low=0, below="n_inputs", order="strictly ascending"),
            "slope": Array("f4", ("n_columns", "n_bins")),
            "offset": Array("f4", ("n_columns", "n_bins")),
        },
        lambda encoding: bool(np.isin(encoding.columns, encoding.kept).all()),
        {"n_encoded": lambda encoding: encoding.n_outputs},
    ),
    "History": Stored(
        "usnrt.nn.train",
        {
            "train_loss": Many(Float(special="any")),
            "valid_loss": Many(Float(special="any")),
            "best_epoch": Int(-1),
            "diverged": Bool(),
            "initial_loss": Float(special="any"),
        },
    ),
}
CODEC = Codec(NETWORKS)


def has_weights(network: Any, params: Any) -> bool:
    """Whether parameters are those of a network: the shapes of all layers."""
    return [[array.shape for array in layer] for layer in params] == _shapes(network)


def _shapes(network: Any) -> list[list[tuple[int, ...]]]:
    """Shapes of the weights, layer by layer; those of Concrete Dropout have a rate, and may have a layer per output."""
    has_rates = hasattr(network, "temperature")
    layers = list(pairwise(network.sizes))
    if has_rates and network.separate_heads:
        layers[-1:] = [(network.sizes[-2], 1)] * network.sizes[-1]
    rate: list[tuple[int, ...]] = [()] if has_rates else []
    return [[(n, m), (m,), *rate] for n, m in layers]
