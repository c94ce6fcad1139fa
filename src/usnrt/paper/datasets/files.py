"""Finding the files of a data set on disk, or downloading them from UCI."""

import errno
import gzip
import hashlib
import io
import os
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from usnrt.paper.datasets.specs import DataFile, Spec
from usnrt.utils.notices import UnverifiedFileWarning, users_level

DEFAULT_URL = "https://archive.ics.uci.edu/static/public"
# Bytes that an archive may unpack to, with all archives in it, and how deep these may be: the largest data set has
# 0.5 GB, but an archive of a few kB can unpack to any size.
MAX_BYTES, MAX_DEPTH = 2 * 2**30, 3


def archive_url(spec: Spec) -> str:
    """URL of a data set's archive; the environment variable ``USNRT_DATA_URL`` sets another server."""
    base = os.environ.get("USNRT_DATA_URL", DEFAULT_URL).rstrip("/")
    return f"{base}/{spec.uci_id}/{spec.slug}.zip"


def archive_name(spec: Spec) -> str:
    """File name of a downloaded archive; data sets in the same archive share the file."""
    return f"uci-{spec.uci_id}.zip"


def get_files(spec: Spec, data_home: Path, download: bool) -> list[bytes]:
    """Verified contents of all files of a data set, in order.

    Searches the folder in ``USNRT_DATA``, then ``data_home``, then downloads.
    """
    roots = _roots(data_home)
    for root in roots:
        if paths := _locate(spec, root):
            return _read(spec, paths)
    if not download:
        raise FileNotFoundError(_not_found_message(spec, roots, "and download=False"))
    return _download(spec, data_home, roots)


def _not_found_message(spec: Spec, roots: list[Path], why: str) -> str:
    names = " and ".join(file.name for file in spec.files)
    looked = " or ".join(str(root) for root in roots)
    return (
        f"data set {spec.key!r} was not found in {looked} {why}: put {spec.key}.zip or {names} from {spec.page} "
        f"into {roots[-1]}, or set the environment variable USNRT_DATA to their folder"
    )


def is_here(spec: Spec, data_home: Path) -> bool:
    """Whether a data set's files are on this machine; they are not opened."""
    return any(_locate(spec, root) for root in _roots(data_home))


def _roots(data_home: Path) -> list[Path]:
    named = os.environ.get("USNRT_DATA")
    return [Path(named), data_home] if named else [data_home]


def _locate(spec: Spec, root: Path) -> list[Path]:
    """The data set's archive below ``root``, or its unpacked files; empty if absent."""
    for folder in (root, root / "uci", root / spec.key):
        for archive in (folder / f"{spec.key}.zip", folder / archive_name(spec)):
            if archive.is_file():
                return [archive]
        loose = [path for file in spec.files if (path := _first_existing(folder, file))]
        if len(loose) == len(spec.files):
            return loose
    return []


def _read(spec: Spec, paths: list[Path]) -> list[bytes]:
    if paths[0].suffix == ".zip":
        return read_archive(paths[0], spec)
    return [_verified(path.read_bytes(), file, path) for path, file in zip(paths, spec.files)]


def _first_existing(folder: Path, file: DataFile) -> Path | None:
    return next((folder / n for n in (file.name, *file.aliases) if (folder / n).is_file()), None)


def read_archive(path: Path, spec: Spec) -> list[bytes]:
    """Contents of a data set's files in a zip archive, also inside nested archives, as UCI has them."""
    try:
        contents: dict[str, bytes] = {}
        with zipfile.ZipFile(path) as archive:
            wanted = {name for file in spec.files for name in (file.name, *file.aliases)}
            for name, content in _members(archive, wanted, _Unpacking(path)):
                contents.setdefault(name, content)
    except (zipfile.BadZipFile, zlib.error, gzip.BadGzipFile, EOFError) as error:
        raise ValueError(f"{path} must be a complete zip archive, got: {error}; delete it and fetch again") from error
    found = []
    for file in spec.files:
        there = [contents[n] for n in (file.name, *file.aliases) if n in contents]
        if not there:
            raise ValueError(f"{path} must contain {file.name}, got other files only")
        found.append(_verified(there[0], file, path))
    return found


class _Unpacking:
    """What is left of the bytes that an archive may unpack to."""

    def __init__(self, path: Path) -> None:
        self.path, self.left = path, MAX_BYTES

    def read(self, stream: IO[bytes]) -> bytes:
        content = stream.read(self.left + 1)
        self.left -= len(content)
        if self.left < 0:
            raise ValueError(f"{self.path} must unpack to at most {MAX_BYTES:,} bytes, got more")
        return content


def _members(
    archive: zipfile.ZipFile, wanted: set[str], unpacking: _Unpacking, depth: int = 0
) -> Iterator[tuple[str, bytes]]:
    if depth > MAX_DEPTH:
        raise ValueError(f"{unpacking.path} must have archives within archives up to {MAX_DEPTH} deep, got more")
    for member in archive.namelist():
        name = member.rsplit("/", 1)[-1]
        if member.startswith("__MACOSX/"):
            continue
        is_gzip = name.endswith(".gz") and name.removesuffix(".gz") in wanted
        if not (is_gzip or name in wanted or name.endswith(".zip")):
            continue
        with archive.open(member) as stream:
            if is_gzip:
                yield name.removesuffix(".gz"), unpacking.read(cast("IO[bytes]", gzip.GzipFile(fileobj=stream)))
                continue
            content = unpacking.read(stream)
        if name in wanted:
            yield name, content
        else:
            with zipfile.ZipFile(io.BytesIO(content)) as inner:
                yield from _members(inner, wanted, unpacking, depth + 1)


def _verified(content: bytes, file: DataFile, where: Path) -> bytes:
    if file.sha256 is None:
        warnings.warn(
            f"{file.name} in {where} is not verified: its checksum is not known, only its rows and columns are counted",
            UnverifiedFileWarning,
            stacklevel=users_level(),
        )
        return content
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise ValueError(
            f"{file.name} in {where} must have the SHA-256 {file.sha256}, got {found}; "
            "the file is damaged or another version"
        )
    return content


def _download(spec: Spec, data_home: Path, roots: list[Path]) -> list[bytes]:
    try:
        import pooch
        from requests.exceptions import RequestException
    except ImportError as error:
        raise ImportError("downloading data sets needs pooch: pip install 'usnrt[data]'") from error
    verified: list[bytes] = []

    def get_and_verify(url: str, output_file: str, manager: object) -> None:
        # Verified in the temporary file, so that invalid files never enter the cache.
        downloader = pooch.HTTPDownloader(progressbar=_Progress(spec.key), timeout=60)
        downloader(url, output_file, manager)
        verified.extend(read_archive(Path(output_file), spec))

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")  # its messages about hashes are for developers
    url = archive_url(spec)
    try:
        pooch.retrieve(url, known_hash=None, fname=archive_name(spec), path=data_home, downloader=get_and_verify)
    except RequestException as error:
        reason = f"and could not be downloaded from {url} ({type(error).__name__})"
        raise FileNotFoundError(_not_found_message(spec, roots, reason)) from error
    except ValueError as error:
        raise ValueError(f"the download of {spec.key!r} from {url} failed: {error}") from error
    except OSError as error:
        number = error.errno if error.errno is not None else errno.EIO
        reason = error.strerror or str(error)
        raise OSError(number, f"cannot store the download of {spec.key!r} in {data_home}: {reason}") from error
    finally:
        logger.setLevel(level)
    return verified


class _Progress:
    """Progress of a download on stderr, with the interface that pooch needs."""

    def __init__(self, name: str) -> None:
        self.name, self.total, self._done, self._shown = name, 0, 0, -1

    def update(self, n: int) -> None:
        self._done += n
        megabytes = self._done // 1_000_000
        if megabytes != self._shown and sys.stderr.isatty():
            self._shown = megabytes
            whole = f" of {self.total / 1e6:.0f}" if self.total else ""
            print(f"\rdownloading {self.name}: {megabytes}{whole} MB", end="", file=sys.stderr, flush=True)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        if self._shown >= 0:
            print(file=sys.stderr)
