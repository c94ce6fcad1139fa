"""Size and shape of a package in numbers: lines, files, parameters, class chains, modules with one importer.

python tools/code_numbers.py [src/usnrt]
"""

import ast
import sys
from collections import Counter
from pathlib import Path

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstring_lines(tree: ast.AST) -> set[int]:
    """Numbers of the lines that docstrings take."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            found.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return found


def modules_of(folder: Path) -> dict[str, Path]:
    """Module names and their files."""
    names = {
        path: ".".join((folder.name, *path.relative_to(folder).with_suffix("").parts)) for path in folder.rglob("*.py")
    }
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


def imported_by(tree: ast.AST, modules: dict[str, Path]) -> set[str]:
    """Modules of the package that a module imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update((inner & modules.keys()) or ({node.module} & modules.keys()))
    return found


def chain(name: str, bases: dict[str, list[str]]) -> int:
    """Number of the package's classes from a class up to those of other packages."""
    return 1 + max((chain(base, bases) for base in bases[name] if base in bases and base != name), default=0)


def main() -> None:
    """Print the numbers."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "src/usnrt")
    modules = modules_of(folder)
    count: Counter[str] = Counter()
    importers: Counter[str] = Counter()
    bases: dict[str, list[str]] = {}
    many: list[str] = []
    for name, path in sorted(modules.items()):
        text = path.read_text()
        tree, lines = ast.parse(text), text.splitlines()
        documented = docstring_lines(tree)
        for number, line in enumerate(lines, 1):
            kind = "comment" if line.strip().startswith("#") else "code" if line.strip() else "blank"
            count["docstring" if number in documented else kind] += 1
            count["Any"] += "Any" in line.split("#")[0] and number not in documented and "import" not in line
        importers.update(other for other in imported_by(tree, modules) if other != name)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = [ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases]
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                kernel = any("jit" in ast.unparse(each) for each in node.decorator_list)
                if (
                    len([each for each in given if each not in ("self", "cls")]) > 8
                    and node.name != "__init__"
                    and not kernel
                ):
                    many.append(f"{name}:{node.name}")
    single = sorted(name for name in modules if importers[name] == 1 and not modules[name].stem.startswith("__"))
    print(
        f"{len(modules)} files; lines: "
        + ", ".join(f"{count[kind]:,} {kind}" for kind in ("code", "docstring", "comment", "blank"))
    )
    print(f"{count['Any']} lines with Any; {len(single)} modules with one importer")
    longest = sorted(((chain(name, bases), name) for name in bases), reverse=True)[:3]
    print("longest class chains: " + ", ".join(f"{name} {depth}" for depth, name in longest))
    print(f"{len(many)} functions of more than 8 parameters: {', '.join(many)}")


if __name__ == "__main__":
    main()
