"""Helpers shared by all layers: parameter checks, progress, warnings, result tables, atomic file writes."""
