"""The container of a model's state: a zip archive of known members with known sizes and checksums."""

import errno
import hashlib
import json
import math
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from usnrt.experts.user_model import ModelExpert
from usnrt.persistence._classes import CODEC
from usnrt.utils.atomic_write import atomic_write
from usnrt.utils.codec import DecodingError

FORMAT = "usnrt-model"
FORMAT_VERSION = 4
MANIFEST, STATE, ARRAYS = "manifest.json", "state.json", "arrays.safetensors"
# Fitted models of the user, numbered from 0, as bytes of a format that the user chose.
USER_MODEL = "user_models/{}.bin"
MAX_MANIFEST = 10**6  # bytes
MAX_FILE = 4 * 2**30  # bytes; a sparse file can have any size without using disk space
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)  # so that equal models give equal bytes


class ModelFileError(ValueError):
    """A file is not a model file of this library, or it is damaged."""


def save(model: Any, path: str | os.PathLike[str], user_models: Callable[[Any], bytes] | None = None) -> None:
    """Write a fitted model to one file.

    Parameters
    ----------
    model : DistributionalRegressor
        Any fitted model of the library.
    path : path-like
        Conventionally with the extension ``.usnrt``. An existing file is replaced atomically.
    user_models : callable, optional
        Turns a fitted model of yours that is an expert (parameter ``experts``) into bytes, such as ``skops.io.dumps``
        or ``pickle.dumps``; needed if there is one. `load` needs the reverse.

    Notes
    -----
    Everything that predictions depend on is stored exactly. Parameters that cannot be stored and that only affect
    ``fit``, such as callbacks or a random generator, have their default values after loading.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from usnrt.tables import TableEncoder
    >>> from usnrt.persistence import load, save
    >>> path = os.path.join(tempfile.mkdtemp(), "encoder.usnrt")
    >>> save(TableEncoder().fit(np.ones((3, 2))), path)
    >>> load(path).source_names_
    ['x0', 'x1']
    """
    from safetensors.numpy import save as write_tensors

    from usnrt._version import __version__

    name = CODEC.name_of(type(model))
    if name is None:
        raise TypeError(f"model must be a usnrt model, got {type(model).__name__}")
    if hasattr(model, "get_params"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
    arrays, state = CODEC.encode(model, where="model")
    members = {STATE: _dump(state), ARRAYS: write_tensors(arrays) if arrays else b""}
    experts = user_models_of(model)
    models = list({id(expert._model): expert._model for expert in experts}.values())  # members share them
    members |= _written_by(user_models, models, experts)
    manifest = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "library": __version__,
        "class": name,
        "members": {
            member: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for member, data in members.items()
        },
    }
    if experts:
        places = {id(model): number for number, model in enumerate(models)}
        manifest["user_models"] = [places[id(expert._model)] for expert in experts]
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for member, data in {MANIFEST: _dump(manifest, indent=1), **members}.items():
            archive.writestr(zipfile.ZipInfo(member, _FIXED_DATE), data)


def load(path: str | os.PathLike[str], user_models: Callable[[bytes], Any] | None = None) -> Any:
    """Read a model that `save` wrote.

    Loading executes no code from the file, and needs memory in proportion to the actual size of the file.

    Parameters
    ----------
    path : path-like
    user_models : callable, optional
        Turns the bytes of a model of the file's author into the model, such as ``pickle.loads``; only for files that
        hold one. It may run code from the file: give it for files that you trust.

    Returns
    -------
    model
        Its predictions are those of the saved model, bit for bit.

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, or has another format version.
    OSError
        If the file cannot be read at all.
    """
    with _refusals_with(path), _opened(path) as file:
        manifest, members = _read_members(file)
        model = _build(manifest, members)
        experts, numbers = user_models_of(model), manifest.get("user_models", [])
        if not _are_numbers(numbers, len(experts), len(members) - 2):
            raise DecodingError("its experts are not those of the models of its author")
        if experts and user_models is None:
            names = ", ".join(dict.fromkeys(expert.name for expert in experts))
            raise DecodingError(
                f"it holds models of its author ({names}); pass user_models, a function from bytes to a model, if you "
                "trust the file"
            )
    if user_models is not None:
        models = [user_models(members[USER_MODEL.format(number)]) for number in range(len(members) - 2)]
        for number, expert in zip(numbers, experts):
            object.__setattr__(expert, "_model", models[number])
    return model


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the manifest of a model file, without loading the model.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    dict
        Keys ``format``, ``version``, ``library``, ``class`` and ``members``.
    """
    with _refusals_with(path), _opened(path) as file, zipfile.ZipFile(file) as archive:
        return _checked_manifest(_read_member(archive, MANIFEST, MAX_MANIFEST))


@contextmanager
def _refusals_with(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever a file causes into a sentence with its name; errors of the disk stay."""
    try:
        yield
    except DecodingError as error:
        reason = str(error)
    except OSError as error:
        if error.filename is not None or error.errno in (errno.EIO, errno.ESTALE):  # the file need not be damaged
            raise
        reason = f"it is damaged ({type(error).__name__})"
    except Exception as error:  # a malicious file may cause any exception
        reason = f"it is damaged ({type(error).__name__})"
    else:
        return
    raise ModelFileError(f"{os.fspath(path)} is not a model file that can be loaded: {reason}") from None


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    if stat.S_ISDIR(os.stat(path).st_mode):
        raise DecodingError("it is a directory")
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise DecodingError("it is not a regular file")
    return Path(path).open("rb")


def _read_members(file: BinaryIO) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the other members, whose sizes and checksums are verified."""
    file_size = os.fstat(file.fileno()).st_size
    if file_size > MAX_FILE:
        raise DecodingError(f"it is larger than {MAX_FILE >> 30} GiB")
    if file.read(4) != b"PK\x03\x04":
        raise DecodingError("it is not a zip archive")
    with zipfile.ZipFile(file) as archive:
        names = [info.filename for info in archive.infolist()]
        own = [USER_MODEL.format(number) for number in range(len(names) - 3)]
        if sorted(names) != sorted([MANIFEST, STATE, ARRAYS, *own]):
            raise DecodingError("its members are not those of a model file")
        if sum(info.file_size for info in archive.infolist()) > file_size:
            raise DecodingError("the declared sizes of its members exceed the size of the file")
        manifest = _checked_manifest(_read_member(archive, MANIFEST, MAX_MANIFEST))
        members = {}
        for name in (STATE, ARRAYS, *own):
            data = _read_member(archive, name, file_size)
            expected = manifest["members"][name]
            if len(data) != expected["size"] or hashlib.sha256(data).hexdigest() != expected["sha256"]:
                raise DecodingError(f"the checksum of {name} is wrong")
            members[name] = data
    return manifest, members


def _read_member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    info = archive.getinfo(name)
    # Uncompressed members cannot be larger than the file, which excludes zip bombs.
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits & 0x1:
        raise DecodingError(f"{name} is compressed or encrypted")
    if info.file_size > limit:
        raise DecodingError(f"{name} is too large")
    with archive.open(info) as member:
        return member.read()


def _checked_manifest(data: bytes) -> dict[str, Any]:
    manifest = _parse(data)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DecodingError("its manifest is invalid")
    version = manifest.get("version")
    if type(version) is not int:
        raise DecodingError("its format version is missing or invalid")
    if version != FORMAT_VERSION:
        raise DecodingError(f"its format version is {version}, but this version of usnrt reads format {FORMAT_VERSION}")
    return manifest


def _build(manifest: dict[str, Any], members: dict[str, bytes]) -> Any:
    from safetensors.numpy import load as read_tensors

    arrays = read_tensors(members[ARRAYS]) if members[ARRAYS] else {}
    state = _parse(members[STATE])
    class_in_file = manifest.get("class")
    if not isinstance(state, dict) or state.get("$object") != class_in_file:
        raise DecodingError("it contains no model")
    model = CODEC.decode(arrays, state)
    if hasattr(model, "get_params") and not hasattr(model, "encoder_"):
        raise DecodingError("it contains no fitted model")
    return model


def user_models_of(model: Any) -> list[ModelExpert]:
    """The experts of a model, or of that of an online calibrator, that are models of the user."""
    fitted = getattr(getattr(model, "model", model), "model_", None)
    return [] if fitted is None else fitted.user_models


def _are_numbers(numbers: Any, n_experts: int, n_models: int) -> bool:
    """Whether each expert has the number of a model, and each model an expert."""
    return (
        isinstance(numbers, list)
        and len(numbers) == n_experts
        and all(type(number) is int for number in numbers)
        and set(numbers) == set(range(n_models))
    )


def _written_by(user_models: Callable[[Any], bytes] | None, models: list[Any], experts: list[Any]) -> dict[str, bytes]:
    """Models of the user as members of an archive."""
    if experts and user_models is None:
        names = ", ".join(dict.fromkeys(expert.name for expert in experts))
        raise TypeError(
            f"save needs user_models, a function from a model to bytes, for your models ({names}); usnrt never pickles"
        )
    members = {}
    for number, model in enumerate(models):
        assert user_models is not None
        data = user_models(model)
        if not isinstance(data, bytes | bytearray):
            raise TypeError(f"user_models must return bytes, got {type(data).__name__}")
        members[USER_MODEL.format(number)] = bytes(data)
    return members


def _dump(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=True).encode()


def _parse(data: bytes) -> Any:
    def refuse(name: str) -> NoReturn:
        raise DecodingError(f"{name} is not a valid value")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise DecodingError("it contains a duplicate key")
        return dict(pairs)

    def finite(digits: str) -> float:
        number = float(digits)
        return number if math.isfinite(number) else refuse(digits[:40])

    return json.loads(data, parse_float=finite, parse_constant=refuse, object_pairs_hook=unique)
