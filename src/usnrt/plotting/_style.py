"""Style of the plots, applied to one Axes at a time: nothing global is changed."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's colours, distinguishable by colour-blind readers; yellow last, as it is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#F0E442")
BLUE, RED = COLOURS[0], COLOURS[1]
GREY = "#777777"
LIGHT = "#DDDDDD"
LINE_STYLES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


class Display:
    """Base of the display classes: the Axes that they draw on.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure
    """

    ax_: "Axes"
    figure_: "Figure"

    def _start(self, ax: "Axes | None", size: tuple[float, float] = (5.0, 4.0)) -> "Axes":
        """The styled Axes to draw on; those of a new figure if none are given."""
        self.ax_ = new_axes(size) if ax is None else ax
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        tidy(self.ax_)
        return self.ax_


def import_pyplot() -> Any:
    """``matplotlib.pyplot``; the error for a missing matplotlib names the extra to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'usnrt[plot]'") from error
    return plt


def new_axes(size: tuple[float, float]) -> "Axes":
    """Axes of a new figure."""
    ax: Axes = import_pyplot().subplots(figsize=size, layout="constrained")[1]
    return ax


def tidy(ax: "Axes") -> None:
    """Thin axes on two sides, a faint grid behind the data."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_linewidth(0.6)
        ax.spines[side].set_color(GREY)
    ax.tick_params(width=0.6, color=GREY, labelsize=9)
    ax.grid(True, color=LIGHT, linewidth=0.5)
    ax.set_axisbelow(True)


def next_colour(ax: "Axes") -> str:
    """The first colour that no line of these Axes has, so that several displays can share them."""
    used = {line.get_color() for line in ax.lines}
    return next((colour for colour in COLOURS if colour not in used), COLOURS[len(ax.lines) % len(COLOURS)])


def legend(ax: "Axes", **options: Any) -> None:
    """A legend without a frame."""
    ax.legend(frameon=False, fontsize=9, **options)


def percent_axis(axis: "Axis") -> None:
    """Ticks of a fraction as percentages."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=None, symbol=" %"))


def name_of(data: object, default: str) -> str:
    """The name of a series, else a default."""
    name = getattr(data, "name", None)
    return str(name) if name is not None and not callable(name) else default


def percent(value: float) -> str:
    """A fraction as a percentage with three digits: 0.0123 as "1.23 %"."""
    return f"{100 * value:.3g} %"
