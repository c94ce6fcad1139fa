"""What all layers use: checks of parameters, progress, notices, result tables, files that are written whole."""
