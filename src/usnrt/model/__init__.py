"""Fitted models: immutable values made of parts, fitted by functions and read by everything else."""
