"""Files are found, verified and downloaded; what fails says so in one sentence and leaves the cache clean."""

import dataclasses
import errno
import gzip
import hashlib
import io
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pooch
import pytest

from usnrt.paper.datasets import files, get_spec
from usnrt.paper.datasets.specs import DataFile
from usnrt.utils.notices import UnverifiedFileWarning

CONTENT = b"tau1,stab,stabf\n1,2,stable\n"
SPEC = dataclasses.replace(
    get_spec("electrical"),
    files=(DataFile("Data_for_UCI_named.csv", hashlib.sha256(CONTENT).hexdigest(), aliases=("data.txt",)),),
)
NAME = SPEC.files[0].name


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder; when the server is to cut, it announces a file's full length and sends half."""

    def log_message(self, *args):
        pass

    def copyfile(self, source, outputfile):
        content = source.read()
        outputfile.write(content[: len(content) // 2] if self.server.cut else content)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A web server on loopback in UCI's place; yields the folder it serves."""
    root = tmp_path / "served"
    folder = root / "471"
    folder.mkdir(parents=True)
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))
    httpd.cut = False
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    monkeypatch.setenv("USNRT_DATA_URL", f"http://127.0.0.1:{httpd.server_port}/")
    monkeypatch.delenv("USNRT_DATA", raising=False)
    yield httpd, folder / "electrical+grid+stability+simulated+data.zip"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def left_in(folder):
    return sorted(path.name for path in folder.glob("*")) if folder.exists() else []


def test_a_download_is_verified_and_kept(server, cache):
    _, path = server
    path.write_bytes(zipped(**{NAME: CONTENT}))
    assert files.get_files(SPEC, cache, download=True) == [CONTENT]
    assert left_in(cache) == ["uci-471.zip"]
    path.unlink()  # the second time nothing is asked of the server
    assert files.get_files(SPEC, cache, download=True) == [CONTENT]


def test_a_connection_cut_on_the_way_leaves_nothing(server, cache):
    httpd, path = server
    path.write_bytes(zipped(**{NAME: CONTENT}))
    httpd.cut = True
    with pytest.raises(FileNotFoundError) as caught:
        files.get_files(SPEC, cache, download=True)
    assert str(caught.value) == (
        f"data set 'electrical' was not found in {cache} and could not be downloaded from "
        f"{files.archive_url(SPEC)} (ChunkedEncodingError): put electrical.zip or {NAME} from "
        f"https://archive.ics.uci.edu/dataset/471 into {cache}, or set the environment "
        "variable USNRT_DATA to their folder"
    )
    assert left_in(cache) == []


def test_a_truncated_file_is_discarded(server, cache):
    _, path = server
    whole = zipped(**{NAME: CONTENT})
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        ValueError,
        match=r"^the download of 'electrical' from .* failed: .* must be a complete zip "
        r"archive, got: File is not a zip file",
    ):
        files.get_files(SPEC, cache, download=True)
    assert left_in(cache) == []


def test_a_wrong_checksum_is_discarded(server, cache):
    _, path = server
    path.write_bytes(zipped(**{NAME: CONTENT + b"more"}))
    with pytest.raises(
        ValueError,
        match=r"failed: Data_for_UCI_named.csv in .* must have the SHA-256 [0-9a-f]{64}, got "
        r"[0-9a-f]{64}; the file is damaged or another version$",
    ):
        files.get_files(SPEC, cache, download=True)
    assert left_in(cache) == []


def test_an_archive_without_the_file_is_discarded(server, cache):
    _, path = server
    path.write_bytes(zipped(other=b""))
    with pytest.raises(ValueError, match=r"must contain Data_for_UCI_named.csv, got other files only$"):
        files.get_files(SPEC, cache, download=True)
    assert left_in(cache) == []


def test_a_missing_page_says_what_to_put_where(server, cache):
    with pytest.raises(FileNotFoundError, match=r"\(HTTPError\): put electrical.zip or .* into .*cache, or set"):
        files.get_files(SPEC, cache, download=True)


def test_a_full_disk_leaves_nothing(server, cache, monkeypatch):
    _, path = server
    path.write_bytes(zipped(**{NAME: CONTENT}))

    def full(self, url, output_file, manager):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", full)
    with pytest.raises(OSError, match="cannot store the download of 'electrical' in .*: No space left") as caught:
        files.get_files(SPEC, cache, download=True)
    assert caught.value.errno == errno.ENOSPC
    assert left_in(cache) == []


def test_offline_with_nothing_found(cache, monkeypatch):
    monkeypatch.setenv("USNRT_DATA_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("USNRT_DATA", "/nowhere")
    with pytest.raises(
        FileNotFoundError,
        match=rf"^data set 'electrical' was not found in /nowhere or {cache} and could not be downloaded from "
        r"http://127.0.0.1:9/471/.*.zip \(ConnectionError\): put electrical.zip",
    ):
        files.get_files(SPEC, cache, download=True)


def test_download_can_be_forbidden(cache, monkeypatch):
    monkeypatch.delenv("USNRT_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="and download=False: put"):
        files.get_files(SPEC, cache, download=False)


@pytest.mark.parametrize(
    "place", ["electrical.zip", "uci/electrical.zip", "uci-471.zip", NAME, f"electrical/{NAME}", "data.txt"]
)
def test_files_are_found_where_people_put_them(tmp_path, monkeypatch, cache, place):
    monkeypatch.setenv("USNRT_DATA", str(tmp_path))
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zipped(**{NAME: CONTENT}) if place.endswith(".zip") else CONTENT)
    assert files.get_files(SPEC, cache, download=False) == [CONTENT]


@pytest.mark.parametrize(
    "members",
    [
        {"UCI Dataset/data.txt": CONTENT},
        {"inner.zip": zipped(**{f"deep/{NAME}": CONTENT})},
        {f"__MACOSX/{NAME}": b"junk", NAME: CONTENT},
    ],
)
def test_archives_as_uci_packs_them(tmp_path, members):
    path = tmp_path / "x.zip"
    path.write_bytes(zipped(**members))
    assert files.read_archive(path, SPEC) == [CONTENT]


def test_gzip_inside_an_archive(tmp_path):
    import gzip

    path = tmp_path / "x.zip"
    path.write_bytes(zipped(**{f"{NAME}.gz": gzip.compress(CONTENT)}))
    assert files.read_archive(path, SPEC) == [CONTENT]


def test_a_damaged_local_archive_says_so(tmp_path, monkeypatch, cache):
    monkeypatch.setenv("USNRT_DATA", str(tmp_path))
    (tmp_path / "electrical.zip").write_bytes(b"PK\x03\x04 nonsense")
    with pytest.raises(ValueError, match=r"electrical.zip must be a complete zip archive, got: File is not"):
        files.get_files(SPEC, cache, download=False)


@pytest.mark.parametrize(
    "members",
    [
        {NAME: bytes(20_001)},
        {f"{NAME}.gz": gzip.compress(bytes(20_001))},
        {"inner.zip": zipped(**{NAME: bytes(20_001)})},
        {"a.zip": zipped(a=bytes(9)), "b.zip": zipped(**{NAME: bytes(19_990)})},  # all of them together
    ],
    ids=["file", "gzip", "nested", "several"],
)
def test_archives_that_unpack_to_too_much_are_refused(members, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 20_000)
    path = tmp_path / "x.zip"
    path.write_bytes(zipped(**members))
    assert path.stat().st_size < 1_000
    with pytest.raises(ValueError, match=r"x.zip must unpack to at most 20,000 bytes, got more$"):
        files.read_archive(path, SPEC)


def test_archives_within_archives_have_a_limit(tmp_path):
    content = zipped(**{NAME: CONTENT})
    for _ in range(4):
        content = zipped(**{"inner.zip": content})
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"x.zip must have archives within archives up to 3 deep, got more$"):
        files.read_archive(path, SPEC)


def test_files_without_a_checksum_are_warned_of(tmp_path):
    spec = dataclasses.replace(SPEC, files=(DataFile(NAME),))
    path = tmp_path / "x.zip"
    path.write_bytes(zipped(**{NAME: CONTENT}))
    with pytest.warns(UnverifiedFileWarning, match=r" in .*x.zip is not verified: its checksum is not known, only its"):
        assert files.read_archive(path, spec) == [CONTENT]
