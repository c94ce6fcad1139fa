"""Networks that are guided by another prediction, which they learn to do without."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from usnrt.nn.mlp import MLP, Params

if TYPE_CHECKING:
    from jax import Array


@dataclass(frozen=True)
class GuidedMLP(MLP):
    """A multilayer perceptron some of whose inputs, the guides, are missing for a share of the rows during training.

    Guides of training rows may be better than those of new rows. A network that must also predict without them depends
    on them less; and with all guides at 0 it is a second, unguided, network.

    Parameters
    ----------
    sizes, activation, output
        As for `MLP`.
    first_guide, n_guides : int
        Position and number of the inputs that are guides.
    dropout : float
        Share of the rows whose guides are set to 0 in training.
    """

    first_guide: int = 0
    n_guides: int = 0
    dropout: float = 0.0

    def __call__(self, params: Params, x: "Array", key: "Array | None" = None) -> "Array":
        """Outputs of shape (batch, n_outputs), in jax; guides are dropped if there is a key."""
        import jax
        import jax.numpy as jnp

        if key is not None and self.n_guides:
            keeps = jax.random.bernoulli(key, 1.0 - self.dropout, (x.shape[0], 1))
            position = jnp.arange(x.shape[1])
            is_guide = (position >= self.first_guide) & (position < self.first_guide + self.n_guides)
            x = jnp.where(is_guide & ~keeps, 0.0, x)
        return super().__call__(params, x, key)

    def with_guides(self, params: Params) -> Params:
        """Weights of a network without the guides, with weights of 0 for them."""
        (weights, bias), *others = params
        return (np.insert(weights, [self.first_guide] * self.n_guides, 0.0, axis=0), bias), *others

    def without_guides(self, params: Params) -> Params:
        """Weights without those of the guides."""
        (weights, bias), *others = params
        guides = slice(self.first_guide, self.first_guide + self.n_guides)
        return (np.delete(weights, guides, axis=0), bias), *others
