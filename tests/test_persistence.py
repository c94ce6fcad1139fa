"""Model files: exact round trips, and one error for everything that is no model file."""

import io
import json
import os
import re
import resource
import stat
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from usnrt.persistence import ModelFileError, load, read_manifest, save
from usnrt.persistence import _container as container
from usnrt.tables import NetworkInputs, TableEncoder
from usnrt.tree.split import best_split
from usnrt.tree.structure import TreeBuilder


def exactly(message):
    return f"^{re.escape(message)}$"


def a_tree():
    X = np.arange(8.0).reshape(-1, 1)
    builder = TreeBuilder(n_features=1)
    builder.add_children(builder.add_root(8), best_split(X, [0, 0, 0, 0, 3, -3, 4, -4], min_samples_leaf=2))
    return builder.build()[0]


@pytest.fixture(scope="module")
def encoder():
    X = np.array([[1.0, "a", None], [2.0, None, True], [None, "b", False]], dtype=object)
    return TableEncoder().fit(X)


@pytest.fixture(scope="module")
def data(encoder, tmp_path_factory):
    """The bytes of a model file."""
    path = tmp_path_factory.mktemp("file") / "encoder.usnrt"
    save(encoder, path)
    return path.read_bytes()


def test_objects_round_trip(encoder, tmp_path):
    save(encoder, tmp_path / "m.usnrt")
    loaded = load(tmp_path / "m.usnrt")
    assert isinstance(loaded, TableEncoder)
    assert loaded.columns_ == encoder.columns_
    X = np.array([[5.0, "b", True]], dtype=object)
    np.testing.assert_array_equal(loaded.transform(X), encoder.transform(X))
    inputs = NetworkInputs().fit(encoder.transform(X), encoder.columns_)
    save(inputs, tmp_path / "m.usnrt")
    np.testing.assert_array_equal(load(tmp_path / "m.usnrt").mean_, inputs.mean_)
    save(a_tree(), tmp_path / "m.usnrt")
    assert load(tmp_path / "m.usnrt").apply([[1.0], [6.0]]).tolist() == [1, 2]


def test_equal_models_give_equal_bytes(encoder, data, tmp_path):
    save(encoder, tmp_path / "again.usnrt")
    assert (tmp_path / "again.usnrt").read_bytes() == data


def test_the_manifest_says_what_the_file_is(encoder, tmp_path):
    import usnrt

    save(encoder, tmp_path / "m.usnrt")
    manifest = read_manifest(tmp_path / "m.usnrt")
    assert manifest["class"] == "TableEncoder"
    assert manifest["version"] == 4
    assert manifest["library"] == usnrt.__version__
    (tmp_path / "n").write_bytes(b"nothing")
    with pytest.raises(ModelFileError, match="is not a model file that can be loaded"):
        read_manifest(tmp_path / "n")


def test_what_cannot_be_saved_is_named(tmp_path):
    with pytest.raises(TypeError, match=exactly("model must be a usnrt model, got dict")):
        save({}, tmp_path / "m.usnrt")
    broken = TableEncoder().fit(np.ones((2, 1)))
    broken.columns_ = [{"f": print}]
    message = "model.columns_[0]['f'] cannot be saved: it is of type builtin_function_or_method"
    with pytest.raises(TypeError, match=exactly(message)):
        save(broken, tmp_path / "m.usnrt")
    broken.columns_ = np.array([1, print], dtype=object)
    message = "model.columns_ cannot be saved: it is an array of objects that are not strings"
    with pytest.raises(TypeError, match=exactly(message)):
        save(broken, tmp_path / "m.usnrt")
    broken.columns_ = [1j * np.ones(2)]
    with pytest.raises(
        TypeError, match=exactly("model.columns_[0] cannot be saved: it is an array of type complex128")
    ):
        save(broken, tmp_path / "m.usnrt")
    loop = []
    loop.append(loop)
    broken.columns_ = loop
    with pytest.raises(ValueError, match="cannot be saved: it is nested deeper than 100 levels"):
        save(broken, tmp_path / "m.usnrt")
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------- files gone bad


def packed(members, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


def made(state, arrays=b"", manifest=None):
    """A file with right checksums around any state."""
    import hashlib

    state = json.dumps(state).encode() if not isinstance(state, bytes) else state
    members = {"state.json": state, "arrays.safetensors": arrays}
    entries = {name: {"size": len(d), "sha256": hashlib.sha256(d).hexdigest()} for name, d in members.items()}
    head = {"format": "usnrt-model", "version": 4, "library": "0", "class": "TableEncoder", "members": entries}
    return packed([("manifest.json", json.dumps({**head, **(manifest or {})})), *members.items()])


def loading(data, tmp_path):
    path = tmp_path / "m.usnrt"
    path.write_bytes(data)
    return load(path)


def encoder_with(**attributes):
    return {"$object": "TableEncoder", "state": attributes}


def with_attribute(text):
    return made(b'{"$object": "TableEncoder", "state": {"a": ' + text + b"}}")


MEMBERS = ["manifest.json", "state.json", "arrays.safetensors"]
FORGED = {"members": {"state.json": {"size": 2, "sha256": "0" * 64}}}
COLUMN = {"$object": "Column", "state": {}}
BAD = [
    (b"", "it is not a zip archive"),
    (b"hello world", "it is not a zip archive"),
    (packed([("a", "b")]), "its members are not those of a model file"),
    (packed([(n, "") for n in [*MEMBERS, "x"]]), "its members are not those of a model file"),
    (packed([(n, "{}") for n in MEMBERS], zipfile.ZIP_DEFLATED), "manifest.json is compressed or encrypted"),
    (packed([(n, "{}") for n in MEMBERS]), "its manifest is invalid"),
    (
        made({}, manifest={"version": 9}),
        "its format version is 9, but this version of usnrt reads format 4",
    ),
    (made({}, manifest={"version": "1"}), "its format version is missing or invalid"),
    (made({}, manifest=FORGED), "the checksum of state.json is wrong"),
    (made({}, manifest={"members": {}}), "it is damaged (KeyError)"),
    (made({}), "it contains no model"),
    (made(COLUMN), "it contains no model"),
    (
        made({"$object": "os.system", "state": {}}, manifest={"class": "os.system"}),
        "it contains an object of unknown class 'os.system'",
    ),
    (made(encoder_with(a={"$pickle": "x"})), "it contains a value of unknown kind '$pickle'"),
    (made(encoder_with(transform=1)), "class TableEncoder has no stored attribute 'transform'"),
    (made(encoder_with(__class__=1)), "class TableEncoder has no stored attribute '__class__'"),
    (made(encoder_with(a={**COLUMN, "state": {"evil": 1}})), "class Column has no stored attribute 'evil'"),
    (made(encoder_with(a=COLUMN)), "attribute 'name' of class Column is missing"),
    (made(encoder_with(a={"$array": "7"})), "it is damaged (KeyError)"),
    (made(encoder_with(), arrays=b"\xff" * 64), "it is damaged (SafetensorError)"),
    (with_attribute(b"NaN"), "NaN is not a valid value"),
    (with_attribute(b'1, "a": 2'), "it contains a duplicate key"),
    (with_attribute(b"[" * 100_000 + b"]" * 100_000), "it is damaged (RecursionError)"),
    (with_attribute(b"[" * 300 + b"]" * 300), "values are nested too deeply"),
    (with_attribute(b"9" * 5000), "it is damaged (ValueError)"),
    (made(encoder_with(a={"$texts": ["a"], "shape": [10**12]})), "it is damaged (ValueError)"),
    (made(encoder_with(a={"$texts": [1], "shape": [1]})), "an array of strings contains other values"),
    (made(encoder_with(a={"$tuple": 5})), "the value of '$tuple' has the wrong type"),
    (made(encoder_with(a=1)), "class TableEncoder has no stored attribute 'a'"),
    (made(encoder_with(date_formats_={"d": 1})), "attribute 'date_formats_' of class TableEncoder is invalid"),
    (made(encoder_with(date_formats_=None)), "attribute 'date_formats_' of class TableEncoder is invalid"),
    (made(encoder_with(date_formats_={"d": "%d"})), "attribute 'columns_' of class TableEncoder is missing"),
    (made(encoder_with(a={"$table": 1})), "the value of '$table' has the wrong type"),
    (made(encoder_with(a={"$table": {"a": [1]}})), "a table has invalid columns"),
    (with_attribute(b"1e400"), "1e400 is not a valid value"),
]


@pytest.mark.parametrize(("content", "reason"), BAD, ids=range(len(BAD)))
def test_bad_files_get_one_sentence(content, reason, tmp_path):
    message = f"{tmp_path / 'm.usnrt'} is not a model file that can be loaded: {reason}"
    with pytest.raises(ModelFileError, match=exactly(message)):
        loading(content, tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_members(tmp_path):
    names = ["manifest.json", "state.json", "arrays.safetensors", "state.json"]
    with pytest.raises(ModelFileError, match="its members are not those of a model file$"):
        loading(packed([(n, "") for n in names]), tmp_path)


def test_a_member_whose_declared_size_exceeds_the_file(data, tmp_path):
    at = data.rindex(b"PK\x01\x02")  # the directory's entry of the last member: sizes at 20 and 24
    forged = data[: at + 20] + (2**31).to_bytes(4, "little") * 2 + data[at + 28 :]
    with pytest.raises(ModelFileError, match="the declared sizes of its members exceed the size of the file$"):
        loading(forged, tmp_path)


def headed(header, data=b""):
    """A file of arrays with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(shape, first, end, dtype="F64"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [first, end]}


ODD_ARRAYS = [
    (2**63).to_bytes(8, "little") + b"{}",
    headed({"0": entry([2**61, 8], 0, 8)}, b"x" * 8),
    headed({"0": entry([2**40], 0, 8)}, b"x" * 8),
    headed({"0": entry([-1], 0, 8)}, b"x" * 8),
    headed({"0": entry([1], 8, 16)}, b"x" * 16),  # a hole
    headed({"0": entry([1], 0, 8), "1": entry([1], 0, 8)}, b"x" * 8),  # the same bytes twice
    headed({"0": entry([1], 0, 8)}, b"x" * 16),  # bytes of no array
    headed({"0": entry([4], 0, 8, "BF16")}, b"x" * 8),
    headed({"0": entry([1], 0, 8, "O")}, b"x" * 8),
    headed(b"[" * 10**6),
]


@pytest.mark.parametrize("arrays", ODD_ARRAYS, ids=range(len(ODD_ARRAYS)))
def test_odd_headers_of_arrays(arrays, tmp_path):
    with pytest.raises(ModelFileError, match="is not a model file that can be loaded: "):
        loading(made(encoder_with(n_categories_={"$array": "0"}), arrays=arrays), tmp_path)


def tensors(**arrays):
    from safetensors.numpy import save as write

    return write(arrays)


TEXT = tensors(a=np.full((2, 3), 0x110000, dtype=np.uint32))


@pytest.mark.parametrize("dtype", ["<U3", "<U2", "O", "f8", "nonsense", "V12", ["f8"]])
def test_arrays_that_claim_another_type(dtype, tmp_path):
    with pytest.raises(ModelFileError):
        loading(made(encoder_with(n_categories_={"$array": "a", "dtype": dtype}), TEXT), tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("left", [0, -1, -1]),  # a loop
        ("right", [7, -1, -1]),  # outside
        ("feature", [5, -1, -1]),
        ("feature", [-2, -1, -1]),
        ("category_row", [3, -1, -1]),
        ("parent", [-1, 2, 0]),
        ("leaf_index", [-1, 1, 0]),
        ("depth", [0, 1, 9]),
        ("threshold", [0.0, 1.0]),
        ("left", [1.0, -1.0, -1.0]),
        ("n_features", 1.5),
        ("left_categories", [1, 2]),
    ],
)
def test_an_invalid_tree(name, value, tmp_path):
    tree = a_tree()
    setattr(tree, name, np.array(value) if isinstance(value, list) else value)
    save(tree, tmp_path / "m.usnrt")
    with pytest.raises(
        ModelFileError, match=r"object of class Tree do not fit together|attribute '\w+' of class Tree is invalid"
    ):
        load(tmp_path / "m.usnrt")


def test_invalid_layer_sizes(tmp_path):
    from usnrt.nn.mlp import MLP

    for sizes in [(3, 10**12), (3,), (0, 1), [3, 1]]:
        save(MLP(sizes), tmp_path / "m.usnrt")
        with pytest.raises(
            ModelFileError,
            match=r"(object of class MLP do not fit together|attribute 'sizes' of class MLP is invalid)$",
        ):
            load(tmp_path / "m.usnrt")


def test_what_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with pytest.raises(ModelFileError, match="it is a directory$"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="it is not a regular file$"):
        load(tmp_path / "pipe")


def test_a_file_of_holes_takes_no_memory(tmp_path):
    path = tmp_path / "m.usnrt"
    with path.open("wb") as file:
        file.write(b"PK\x03\x04")
        file.truncate(2**31)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelFileError, match=re.escape("it is damaged (BadZipFile)")):
        load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kilobytes
    with path.open("r+b") as file:
        file.truncate(container.MAX_FILE + 1)
    with pytest.raises(ModelFileError, match="it is larger than 4 GiB$"):
        load(path)


FUZZ = """
import resource, sys
from pathlib import Path
import numpy as np
from usnrt.persistence import ModelFileError, load

resource.setrlimit(resource.RLIMIT_DATA, (2**31, 2**31))  # what a bomb would need is not there
source, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
data, rng, refused = source.read_bytes(), np.random.default_rng(seed), 0
victim = source.with_name("victim.usnrt")
for i in range(count):
    damaged = bytearray(data)
    how = i % 5
    if how == 0:  # some bytes replaced
        for at in rng.integers(0, len(damaged), rng.integers(1, 9)):
            damaged[at] = rng.integers(0, 256)
    elif how == 1:  # cut off
        del damaged[rng.integers(0, len(damaged)):]
    elif how == 2:  # a piece taken out or put in
        at, to = sorted(rng.integers(0, len(damaged), 2))
        damaged[at:to] = rng.bytes(rng.integers(0, 50))
    elif how == 3:  # a bit flipped in the directory or a header
        at = damaged.rindex(b"PK\\x01\\x02") - rng.integers(-60, 200)
        at = min(max(at, 0), len(damaged) - 1)
        damaged[at] ^= 1 << rng.integers(0, 8)
    else:  # numbers blown up
        at = rng.integers(0, len(damaged) - 8)
        damaged[at:at + 4] = b"\\xff\\xff\\xff\\x7f"
    victim.write_bytes(damaged)
    try:
        load(victim)
    except ModelFileError:
        refused += 1
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(refused, peak.split()[1])
"""


def fuzz(data, tmp_path, count, seed):
    (tmp_path / "whole.usnrt").write_bytes(data)
    arguments = [sys.executable, "-c", FUZZ, str(tmp_path / "whole.usnrt"), str(count), str(seed)]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    refused, kilobytes = map(int, run.stdout.split())
    assert refused > 0.9 * count  # some damage changes nothing that matters, such as a date in a header
    assert kilobytes < 600_000


SAMPLE = Path(__file__).parent / "data" / "model-v4.usnrt"


def test_fuzz(data, tmp_path):
    fuzz(data, tmp_path, 1500, seed=0)
    fuzz(SAMPLE.read_bytes(), tmp_path, 500, seed=1)


@pytest.mark.slow
def test_fuzz_10000(tmp_path):
    fuzz(SAMPLE.read_bytes(), tmp_path, 10_000, seed=2)


state_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "$object",
                    "state",
                    "$array",
                    "$tuple",
                    "$dict",
                    "$scalar",
                    "$text",
                    "$texts",
                    "shape",
                    "dtype",
                    "$float",
                    "order",
                    "a",
                    "columns_",
                ]
            ),
            st.one_of(inner, st.sampled_from(["Column", "TableEncoder", "Tree", "a", "U1", "F", "nan"])),
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(state_values)
def test_hostile_states_with_right_checksums(state):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        try:
            loading(made(encoder_with(reading_=state), TEXT), Path(folder))
        except ModelFileError as error:
            assert "is not a model file that can be loaded: " in str(error)  # noqa: PT017


# -------------------------------------------------------------------------------------------------- writing


def test_a_failed_save_leaves_the_old_file(encoder, tmp_path, monkeypatch):
    path = tmp_path / "m.usnrt"
    path.write_text("old")

    def no_space(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left on device"):
        save(encoder, path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["m.usnrt"]


def test_permissions_follow_the_umask_or_the_old_file(encoder, tmp_path):
    old = os.umask(0o027)
    try:
        save(encoder, tmp_path / "new.usnrt")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new.usnrt").stat().st_mode) == 0o640
    (tmp_path / "new.usnrt").chmod(0o604)
    save(encoder, tmp_path / "new.usnrt")
    assert stat.S_IMODE((tmp_path / "new.usnrt").stat().st_mode) == 0o604


def test_links_and_devices_and_directories(encoder, data, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real.usnrt")
    save(encoder, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real.usnrt").read_bytes() == data
    with pytest.raises(IsADirectoryError, match="is a directory, not a file to write$"):
        save(encoder, tmp_path)
    os.mkfifo(tmp_path / "pipe")
    received = []
    reader = threading.Thread(target=lambda: received.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    from usnrt.utils.atomic_write import atomic_write

    with atomic_write(tmp_path / "pipe") as file:
        file.write(b"through the pipe")
    reader.join(timeout=10)
    assert received == [b"through the pipe"]
