"""Check a release: build it, install it outside the checkout, and run the tests of the sdist against it.

A job is one interpreter with the lowest versions that ``pyproject.toml`` promises, or with the newest. It installs the
wheel with all extras into a clean environment in a temporary folder, where the sdist is unpacked without ``src``: what
the tests import can only be the installed package. With the newest versions warnings are errors, as in ``make test``;
with the lowest they are not, since old packages warn about newer packages that they themselves require.

    python tools/release_check.py                               # every job
    python tools/release_check.py --python 3.11 --versions lowest --tests tests/estimators/test_regressor.py
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
# the names of uv for the versions of what is required
RESOLUTION = {"lowest": "lowest-direct", "newest": "highest"}
TOOLS = ("build", "twine", "uv")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# what must be in the sdist, since its tests or its pages need it
NEEDED = ("LICENSE", "README.md", "CITATION.cff", "pyproject.toml", "conftest.py", "tests/data/model-v4.usnrt")

WHERE = """
import pathlib, sys, usnrt
place = pathlib.Path(usnrt.__file__)
assert "site-packages" in place.parts and pathlib.Path(sys.prefix) in place.parents, place
print("tests run against", place, usnrt.__version__)
"""


class Job(NamedTuple):
    """One environment: an interpreter, and which versions of the requirements."""

    python: str
    versions: str

    def __str__(self) -> str:
        return f"Python {self.python}, {self.versions} versions"


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> None:
    """Run a command without what the caller's environment would add to the import path."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    print("$", *command, flush=True)
    subprocess.run([str(word) for word in command], cwd=cwd, env=inherited | environment, check=True)


def find_interpreter(version: str) -> str | None:
    """The path of an interpreter: on PATH, or of pyenv."""
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    candidates = [shutil.which(f"python{version}"), *map(str, reversed(installed))]
    for candidate in filter(None, candidates):
        told = subprocess.run(
            [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True
        )
        if told.returncode == 0 and told.stdout.strip() == version:
            return candidate
    return None


def make_tools(folder: Path) -> Path:
    """An environment with the tools that build, check and install; returns its folder of programs."""
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS)
    return folder / "bin"


def build(tools: Path, dist: Path) -> tuple[Path, Path]:
    """The sdist of the checkout, and the wheel that is built from this sdist."""
    run(tools / "python", "-m", "build", "--outdir", dist, ROOT)
    run(tools / "twine", "check", "--strict", *sorted(dist.iterdir()))
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    return wheel, sdist


def check_contents(wheel: Path, sdist: Path) -> None:
    """The wheel has the package only, the sdist what its tests read, and both the version of the source."""
    namespace: dict[str, str] = {}
    exec((ROOT / "src" / "usnrt" / "_version.py").read_text(), namespace)
    name = f"usnrt-{namespace['__version__']}"
    with zipfile.ZipFile(wheel) as files:
        inside = files.namelist()
    foreign = [path for path in inside if not path.startswith(("usnrt/", f"{name}.dist-info/"))]
    if foreign or "usnrt/py.typed" not in inside:
        sys.exit(f"{wheel.name} must contain usnrt/ (with py.typed) and its metadata only, got also {foreign[:5]}")
    with tarfile.open(sdist) as archive:
        members = archive.getnames()
    missing = [path for path in NEEDED if f"{name}/{path}" not in members]
    records = [path for path in members if path.startswith(f"{name}/experiments")]
    if missing or records:
        sys.exit(f"{sdist.name} must contain {', '.join(NEEDED)}, and nothing of experiments/: see MANIFEST.in")
    sizes = ", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in (wheel, sdist))
    print(f"{sizes}; {len(inside)} files in the wheel, {len(members)} in the sdist")


def unpack_tests(sdist: Path, folder: Path) -> Path:
    """The sdist without ``src``."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    shutil.rmtree(unpacked / "src")
    return unpacked


def install(job: Job, interpreter: str, tools: Path, wheel: Path, sources: Path, folder: Path) -> Path:
    """A clean environment with the wheel and the versions of the job; returns its interpreter."""
    environment, pins = folder / "environment", folder / "requirements.txt"
    run(interpreter, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    resolve = ["--resolution", RESOLUTION[job.versions], "--python", python, "--quiet", "--no-annotate", "--no-header"]
    # old versions have no wheels for newer Pythons: the lowest that do
    wheels = ["--only-binary", ":all:"]
    run(tools / "uv", "pip", "compile", sources / "pyproject.toml", "--extra", "test", *resolve, *wheels, "-o", pins)
    run(tools / "uv", "pip", "install", "--quiet", "--python", python, "-r", pins)
    run(tools / "uv", "pip", "install", "--quiet", "--python", python, "--no-deps", wheel)
    run(tools / "uv", "pip", "check", "--quiet", "--python", python)
    names = set(direct_requirements(sources / "pyproject.toml"))
    print(" ".join(line for line in pins.read_text().split() if line.partition("==")[0] in names))
    return python


def direct_requirements(pyproject: Path) -> list[str]:
    """Names of what ``pyproject.toml`` requires itself, as uv writes them."""
    project = tomllib.loads(pyproject.read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    return [line.split(">")[0].split(";")[0].strip().lower().replace("_", "-") for line in lines]


def check_job(
    job: Job, interpreter: str, tools: Path, files: tuple[Path, Path], folder: Path, pytest: list[str]
) -> None:
    """Install and test; raises CalledProcessError if something fails."""
    wheel, sdist = files
    (folder / "sdist").mkdir(parents=True)
    sources = unpack_tests(sdist, folder / "sdist")
    python = install(job, interpreter, tools, wheel, sources, folder)
    one_thread = dict.fromkeys(ONE_THREAD, "1")
    run(python, "-c", WHERE, cwd=sources)
    if job.versions == "lowest":
        # pytest 8.2 itself fails where it shows the source of some failures
        pytest = ["-o", "filterwarnings=default", "--disable-warnings", "--tb=native", *pytest]
    run(python, "-m", "pytest", "-c", "pyproject.toml", "--rootdir", ".", *pytest, cwd=sources, **one_thread)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options; by default every job with all quick tests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=PYTHONS, help="versions of Python, such as 3.11")
    parser.add_argument("--versions", nargs="+", choices=list(RESOLUTION), default=list(RESOLUTION))
    parser.add_argument("--tests", nargs="+", default=["tests", "usnrt"], help="paths in the sdist; usnrt: doctests")
    parser.add_argument("--workers", default="2", help="processes of pytest")
    parser.add_argument("--keep", type=Path, help="work in this folder and keep it")
    return parser.parse_args(arguments)


def main() -> None:
    """Build once, then run the jobs one after another; the exit status is 1 if any of them fails."""
    options = parse()
    found = {version: find_interpreter(version) for version in options.python}
    for version, path in found.items():
        print(f"Python {version}: {path or 'not found, its jobs are left out'}")
    if not any(found.values()):
        sys.exit("no interpreter was found")
    pytest = ["-q", "-n", options.workers, "--dist", "worksteal", "--pyargs", *options.tests]
    with tempfile.TemporaryDirectory(prefix="usnrt-release-") as temporary:
        folder = options.keep or Path(temporary)
        tools = make_tools(folder / "tools")
        files = build(tools, folder / "dist")
        check_contents(*files)
        outcomes = {}
        for job in (Job(python, versions) for python in options.python for versions in options.versions):
            interpreter = found[job.python]
            if interpreter is None:
                outcomes[job] = "left out: no interpreter"
                continue
            print(f"== {job}", flush=True)
            try:
                check_job(job, interpreter, tools, files, folder / f"{job.python}-{job.versions}", pytest)
                outcomes[job] = "passed"
            except subprocess.CalledProcessError as error:
                outcomes[job] = f"failed: {Path(error.cmd[0]).name} {' '.join(error.cmd[1:3])}"
    for job, outcome in outcomes.items():
        print(f"{job}: {outcome}")
    sys.exit(any(outcome.startswith("failed") for outcome in outcomes.values()))


if __name__ == "__main__":
    main()
