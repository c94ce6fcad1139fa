"""Damage to model files: of their bytes, or of their contents, with checksums made right again."""

import hashlib
import io
import json
import struct
import zipfile

MEMBERS = ("manifest.json", "state.json", "arrays.safetensors")
CLASSES = (
    "Column",
    "Tree",
    "MLP",
    "TableEncoder",
    "Table",
    "Retrieval",
    "USNRTRegressor",
    "os.system",
    "builtins.eval",
)
VALUES = (
    None, True, 0, -1, 1, 2**31, 2**63, 10**40, -(2**63), 1e308, -0.0, 5e-324, "", "x", "__class__", "\x00", "ß" * 1000,
    [], {}, [[]], {"$float": "nan"}, {"$float": "inf"}, {"$float": "1"}, {"$tuple": []}, {"$array": "0"},
    {"$array": "1", "order": "F"}, {"$array": "0", "dtype": "<U1"}, {"$array": "0", "dtype": "O"}, {"$array": "999"},
    {"$scalar": "0"}, {"$texts": ["a"], "shape": [10**9]}, {"$texts": [], "shape": [0, 10**12]}, {"$text": "a"},
    {"$dict": [[1, 2], [[], 3]]}, {"$object": "Table", "state": {"_columns": {}, "_n_rows": 10**12}}, {"$call": "exit"},
)  # fmt: skip


# ------------------------------------------------------------------------------------------ bytes


def flip_bits(data, rng):
    for at in rng.integers(0, len(data), rng.integers(1, 9)):
        data[at] ^= 1 << int(rng.integers(8))


def truncate(data, rng):
    del data[rng.integers(0, len(data)) :]


def splice(data, rng):
    """A piece is taken out, replaced by random bytes, or doubled."""
    start, stop = sorted(rng.integers(0, len(data), 2))
    stop = min(stop, start + int(rng.choice([8, 100, 10**6])))
    how = rng.integers(3)
    data[start:stop] = b"" if how == 0 else rng.bytes(int(rng.integers(1, 50))) if how == 1 else data[start:stop] * 2


def splice_self(data, rng):
    """A piece of the file is copied over another."""
    at, source, size = (int(v) for v in rng.integers(0, len(data) // 2, 3))
    data[at : at + size] = data[source : source + size]


def harm_headers(data, rng):
    """A bit or a number in the zip archive's directory or a local header."""
    places = [i for mark in (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06") for i in _all(data, mark)]
    at = min(int(rng.choice(places)) + int(rng.integers(0, 50)), len(data) - 5)
    if rng.random() < 0.5:
        data[at] ^= 1 << int(rng.integers(8))
    else:
        data[at : at + 4] = struct.pack("<I", int(rng.choice([0, 1, 2**31 - 1, 2**32 - 1])))


def _all(data, mark):
    at = data.find(mark)
    while at >= 0:
        yield at
        at = data.find(mark, at + 1)


BYTES = (flip_bits, flip_bits, truncate, splice, splice_self, harm_headers)


# ------------------------------------------------------------------------------------------ contents


def unpack(data):
    """Manifest, state and arrays of a whole file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [archive.read(name) for name in MEMBERS]


def pack(manifest, state, arrays, rng=None):
    """A file with right sizes and checksums."""
    manifest["members"] = {
        name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in zip(MEMBERS[1:], (state, arrays))
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in zip(MEMBERS, (json.dumps(manifest).encode(), state, arrays)):
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
    return stream.getvalue()


def nodes(value, parent=None, key=None):
    """All places in a JSON value, as pairs of container and key."""
    if parent is not None:
        yield parent, key
    for inner, item in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from nodes(item, value, inner)


def harm_state(state, rng):
    """Some values of the state are replaced, removed, exchanged, nested or bombs."""
    places = list(nodes(state))
    for _ in range(int(rng.integers(1, 4))):
        container, key = places[rng.integers(len(places))]
        other, other_key = places[rng.integers(len(places))]
        try:
            how = rng.integers(7)
            if how <= 1:
                container[key] = VALUES[rng.integers(len(VALUES))]
            elif how == 2:
                container[key], other[other_key] = other[other_key], container[key]
            elif how == 3:
                del container[key]
            elif how == 4 and isinstance(container[key], int | float):
                container[key] = type(container[key])(container[key] * -1) + int(rng.integers(3))
            elif how == 5:
                container[key] = _nested(int(rng.choice([50, 300, 900])), container[key])
            elif isinstance(container, dict) and "$object" in container:
                container["$object"] = str(rng.choice(CLASSES))
        except (KeyError, IndexError, TypeError, OverflowError):
            continue
    return state


def _nested(depth, value):
    for _ in range(depth):
        value = [value]
    return value


def dumped(state, rng):
    """A state as JSON text, now and then with a bomb that no parsed value holds."""
    try:
        text = json.dumps(state)
    except (ValueError, RecursionError):  # an exchange has made a circle
        text = "[" * 10_000
    bomb = rng.random()
    if bomb < 0.03:
        text = text.replace("{", '{"a": 1, "a": 2, ', 1)  # a key twice
    elif bomb < 0.06:
        text = text[:-1] + ', "bomb": ' + "[" * 100_000 + "]" * 100_000 + "}"
    elif bomb < 0.08:
        text = text[:-1] + ', "bomb": ' + "9" * 200_000 + "}"
    elif bomb < 0.10:
        text = text.replace("0", "NaN", 1)
    return text.encode()


def harm_arrays(arrays, rng):
    """The header of the arrays, or their numbers."""
    if len(arrays) < 8:
        return arrays
    size = struct.unpack("<Q", arrays[:8])[0]
    header, body = json.loads(arrays[8 : 8 + size]), bytearray(arrays[8 + size :])
    names = [name for name in header if name != "__metadata__"]
    name, other = (names[i] for i in rng.integers(len(names), size=2))
    how = rng.integers(8)
    if how == 0:
        header[name]["dtype"] = str(rng.choice(["F64", "F32", "F16", "I64", "U8", "BOOL", "I32", "U64", "BF16", "X"]))
    elif how == 1:
        header[name]["shape"] = [[2**62], [2**31, 2**31], [0], [-1], [], [1] * 40, [10**12, 0]][rng.integers(7)]
    elif how == 2:
        header[name]["data_offsets"] = [[0, 2**62], [5, 2], [0, 0], [-8, 8]][rng.integers(4)]
    elif how == 3:
        header[name], header[other] = header[other], header[name]
    elif how == 4:
        header[name]["shape"] = header[name]["shape"][::-1]
    elif how == 5:
        header[str(len(names))] = header[name]
    else:  # numbers: indices out of bounds, NaN, infinity
        start, stop = header[name]["data_offsets"]
        words = [b"\xff" * 8, b"\x00" * 7 + b"\x7f", struct.pack("<d", float("nan")), struct.pack("<d", 1e300),
                 struct.pack("<q", 2**40), struct.pack("<q", -5), b"\x00" * 8, b"\x01" * 8]  # fmt: skip
        for _ in range(int(rng.integers(1, 4))):
            at = start + 8 * int(rng.integers(0, max((stop - start) // 8, 1)))
            word = words[rng.integers(len(words))][: max(min(8, stop - at), 0)]
            body[at : at + len(word)] = word
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(body)


def harm_manifest(manifest, rng):
    """A field of the manifest is replaced, removed or doubled."""
    key = str(rng.choice([*manifest, "extra"]))
    if rng.random() < 0.3:
        manifest.pop(key, None)
    else:
        manifest[key] = VALUES[rng.integers(len(VALUES))] if key != "version" else int(rng.choice([-1, 0, 1, 2, 3, 4]))
    return manifest


def harmed_contents(data, rng):
    """A file whose contents are damaged and whose checksums are right."""
    manifest, state, arrays = unpack(data)
    manifest, how = json.loads(manifest), rng.random()
    if how < 0.6:
        state = dumped(harm_state(json.loads(state), rng), rng)
    if 0.4 < how < 0.95:
        arrays = harm_arrays(arrays, rng)
    if how >= 0.95:
        manifest = harm_manifest(manifest, rng)
    return pack(manifest, state, arrays)


def harmed(data, rng):
    """A damaged file, and whether its checksums are right, as for a tenth of them."""
    if rng.random() < 0.1:
        return harmed_contents(data, rng), True
    damaged = bytearray(data)
    BYTES[rng.integers(len(BYTES))](damaged, rng)
    return bytes(damaged), False
