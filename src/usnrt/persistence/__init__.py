"""Model files: one ``.usnrt`` file per model, safe to load from untrusted sources.

A file is an uncompressed zip archive of three members:

- ``manifest.json``: format version, library version, class of the model, sizes and SHA-256 of the other members;
- ``state.json``: the fitted state as JSON values;
- ``arrays.safetensors``: its arrays.

Loading creates objects of a fixed list of classes (`usnrt.utils.codec`), checks and sets their attributes. It never
unpickles, imports or calls anything that is named in a file, and it allocates no memory by a size that is only declared
there.
"""

from usnrt.persistence._container import FORMAT_VERSION, ModelFileError, load, read_manifest, save

__all__ = ["FORMAT_VERSION", "ModelFileError", "load", "read_manifest", "save"]
