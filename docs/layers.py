"""Draw the layers of the package from its import graph: ``make layers`` writes docs/pictures/layers.png.

Layers and exceptions are those that import-linter checks (pyproject.toml); the numbers are the imports that are there.
"""

import tomllib
from collections import Counter
from pathlib import Path

import grimp
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "pictures" / "layers.png"
PURPOSE = {
    "__main__": "python -m usnrt", "cli": "commands", "comparison": "models compared", "demo": "the demo",
    "reporting": "a page for managers",
    "onnx": "export", "persistence": "model files", "plotting": "figures", "metrics": "scores of forecasts",
    "decide": "decisions by forecasts", "serve": "models over HTTP", "whatif": "a page to play with",
    "explain": "why a row is uncertain",
    "paper": "its baselines, its data", "estimators": "ours and the paper's", "model": "fitted models",
    "calibration": "regions, support", "distributions": "predictive distributions", "tree": "splits and growth",
    "experts": "what a region combines", "memory": "similar rows",
    "nn": "networks",
    "datasets": "generators", "tables": "reading and encoding", "utils": "checks, progress",
}  # fmt: skip


def layers() -> tuple[list[list[str]], set[tuple[str, str]]]:
    """Packages per layer, the highest first, and the imports that are allowed to point up."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contract = tomllib.load(file)["tool"]["importlinter"]["contracts"][0]
    rows = [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]
    pairs = (line.split(" -> ") for line in contract["ignore_imports"])
    return [row for row in rows if row != ["_version"]], {(a.split(".")[1], b.split(".")[1]) for a, b in pairs}


def package_imports() -> Counter[tuple[str, str]]:
    """How many imports there are from one package to another."""
    graph = grimp.build_graph("usnrt", exclude_type_checking_imports=True, cache_dir=None)
    found: Counter[tuple[str, str]] = Counter()
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            pair = tuple((f"{name}.").split(".")[1] for name in (importer, imported))
            if pair[0] != pair[1] and all(name and name != "_version" for name in pair):
                found[pair[0], pair[1]] += 1
    return found


def draw() -> None:
    """A matrix of packages, importers in rows: what points down a layer is left of the diagonal."""
    rows, exceptions = layers()
    names = [name for layer in reversed(rows) for name in layer]
    level = {name: place for place, layer in enumerate(reversed(rows)) for name in layer}
    found = package_imports()
    figure, axes = plt.subplots(figsize=(9.5, 7.5))
    for (importer, imported), count in found.items():
        down = level[importer] > level[imported]
        assert down or (importer, imported) in exceptions, f"{importer} imports {imported}"
        shade = 0.15 + 0.85 * (count / max(found.values())) ** 0.5
        x, y = names.index(imported), names.index(importer)
        color = (0.20, 0.31, 0.42, shade) if down else (0.75, 0.22, 0.17, 0.85)
        axes.add_patch(Rectangle((x - 0.48, y - 0.48), 0.96, 0.96, color=color, lw=0))
        axes.text(x, y, count, ha="center", va="center", size=8, color="white" if shade > 0.55 or not down else "black")
    axes.plot([-0.5, len(names) - 0.5], [-0.5, len(names) - 0.5], color="#999999", lw=0.8)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="left")
    axes.set_yticks(range(len(names)), [f"{name}: {PURPOSE[name]}" for name in names])
    axes.xaxis.tick_top()
    axes.set(xlim=(-0.5, len(names) - 0.5), ylim=(-0.5, len(names) - 0.5))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(
        "Number of imports: the package of the row imports that of the column, which lies in a lower layer.\n"
        "Red: save(), to_onnx() and explain() of fitted models, which load the upper layer when they are called."
    )
    figure.savefig(PICTURE, dpi=110, bbox_inches="tight")
    print(f"wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    draw()
