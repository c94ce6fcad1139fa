"""The paper: the models that it compares with (`baselines`) and the loaders of its data (`datasets`)."""
