"""Neural networks: the default ones are trained by numba kernels, those of the paper by jax; numba predicts with both.

Both are imported only inside the functions that need them, so that importing usnrt stays fast.
"""
