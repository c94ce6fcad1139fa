"""Model files: one ``.usnrt`` file a model, safe to load whoever it came from.

A file is a zip, without compression, of three members:

- ``manifest.json``: format version, library version, the model's class, sizes and SHA-256 of the other members;
- ``state.json``: the fitted state as plain values;
- ``arrays.safetensors``: its arrays.

Loading makes objects of a fixed list of classes and fills in their attributes. It never unpickles, imports or
calls anything a file names, and it allocates nothing whose size is only claimed.
"""

from usnrt.persistence._container import FORMAT_VERSION, load, read_manifest, save
from usnrt.persistence._errors import ModelFileError

__all__ = ["FORMAT_VERSION", "ModelFileError", "load", "read_manifest", "save"]
