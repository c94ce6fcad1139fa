"""Write docs/speed.md and its picture from the history of the benchmarks, as `make bench` does at its end."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from history import runs

DOCS = Path(__file__).resolve().parents[2] / "docs"
PICTURE = DOCS / "pictures" / "speed.svg"
INTRODUCTION = """# Speed over time

A ratio is the processor time of a peer divided by ours, in the same run on the same machine: above 1 ours is faster.
Times themselves depend on the machine and are not kept. Every run of a benchmark (`make bench`) appends its ratios to
`experiments/benchmarks/history.jsonl`, from which `python experiments/benchmarks/speed_page.py` generates this page.
Programs that run beside a benchmark share its caches: the load is how many programs ran or waited for a core.

![Ratios of the benchmarks, over the dates of their runs](pictures/speed.svg)

| what | peer's time / ours, latest | earlier runs | commit | date | load, cores |
|---|---|---|---|---|---|
"""


def curves(lines: list[dict[str, Any]]) -> dict[str, list[tuple[dict[str, Any], float]]]:
    """The runs and ratios of everything that was measured, by its name."""
    found: dict[str, list[tuple[dict[str, Any], float]]] = {}
    for line in lines:
        for name, ratio in line["ratios"].items():
            found.setdefault(f"{line['benchmark']}: {name}", []).append((line, ratio))
    return dict(sorted(found.items()))


def shown(ratio: float) -> str:
    """Two digits or all whole ones."""
    return f"{ratio:,.0f}x" if ratio >= 20 else f"{ratio:.2g}x"


def page(lines: list[dict[str, Any]]) -> str:
    """The page."""
    rows = []
    for name, measured in curves(lines).items():
        (line, ratio), before = measured[-1], [ratio for _, ratio in measured[:-1]]
        earlier = f"{shown(min(before))} to {shown(max(before))} ({len(before)})" if before else "none"
        where = f"{line['machine']['load']:g}, {line['machine']['cores']}"
        rows.append(f"| {name} | {shown(ratio)} | {earlier} | `{line['commit']}` | {line['date'][:10]} | {where} |")
    machines = {f"{line['machine']['processor']} ({line['machine']['cores']} cores)" for line in lines}
    latest = lines[-1]["versions"]
    stated = ", ".join(f"{package} {version}" for package, version in latest.items())
    facts = f"Machines: {', '.join(sorted(machines))}. Versions of the latest run: {stated}."
    return INTRODUCTION + "\n".join([*rows, "", facts, ""])


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    """One panel per benchmark: its ratios, on a logarithmic scale, over the dates of the runs."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "usnrt", "svg.fonttype": "none", "font.size": 8})
    import matplotlib.pyplot as plt
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    names = sorted({line["benchmark"] for line in lines})
    n_rows = -(-len(names) // 2)
    figure, grid = plt.subplots(n_rows, 2, figsize=(9, 2.7 * n_rows), layout="constrained", squeeze=False)
    dates = [datetime.strptime(line["date"], "%Y-%m-%d %H:%M") for line in lines]
    margin = max(timedelta(days=3), (dates[-1] - dates[0]) / 20)
    for axes, name in zip(grid.flat, names):
        for what, measured in curves([line for line in lines if line["benchmark"] == name]).items():
            when = [datetime.strptime(line["date"], "%Y-%m-%d %H:%M") for line, _ in measured]
            ratios = [ratio for _, ratio in measured]
            axes.plot(when, ratios, "o-", markersize=4, label=f"{what.partition(': ')[2]}: {shown(ratios[-1])}")
        axes.axhline(1, color="0.5", linewidth=1)
        axes.set(title=f"benchmarks/{name}.py", yscale="log", xlim=(dates[0] - margin, dates[-1] + margin))
        low, high = axes.get_ylim()
        axes.set_ylim(low / 1.5, high * 4 ** (1 + len(axes.lines)))  # room for the legend
        axes.legend(loc="upper left", frameon=False, fontsize=7)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}x")
        axes.yaxis.set_minor_formatter(lambda value, _: "")
        axes.xaxis.set_major_locator(locator := AutoDateLocator(minticks=2, maxticks=6))
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        axes.spines[["top", "right"]].set_visible(False)
    for axes in list(grid.flat)[len(names) :]:
        axes.set_visible(False)
    figure.supylabel("peer's processor time / ours")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Write both files."""
    lines = runs()
    (DOCS / "speed.md").write_text(page(lines))
    draw(lines, PICTURE)
    print(f"{len(lines)} runs in {DOCS / 'speed.md'} and {PICTURE}")


if __name__ == "__main__":
    main()
