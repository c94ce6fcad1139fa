"""Experts: what predicts quantile functions of rows, and how a region combines them.

`EXPERTS` lists them. The first three are trained together, since the second one is the first one with guides from the
third one. To add an expert, write its class in a module of its own and enter it in `FURTHER_EXPERTS`; validation rows
then decide, region by region, how much it counts (`extension_templates/expert.py`).
"""
