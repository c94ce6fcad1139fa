"""Memory of training rows: a learnt metric, an index of embedded rows, and predictions by similar rows."""

from usnrt.memory.retrieval import Retrieval, Retrieved

__all__ = ["Retrieval", "Retrieved"]
