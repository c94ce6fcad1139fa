"""Neural networks: architectures, losses and training in jax, prediction in numpy.

jax is imported only inside the functions that need it, so that importing usnrt and predicting stay fast.
"""
