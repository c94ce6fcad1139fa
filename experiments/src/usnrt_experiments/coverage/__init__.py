"""Coverage per group of rows: our tree beside global conformal methods, on the same rows."""
