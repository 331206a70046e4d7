"""What the reports beside this file print and draw alike."""

import io
import re
import sys
from pathlib import Path

# Legible on white and on black.
TEXT = "#7d828a"
SHADES = ["#3d8bd4", "#d9822b", "#2f9e78", "#a06cd5", "#c94f6d", "#7d828a", "#b09b2e", "#6b4f3a"]
# Of two threads: with fewer processors their throughput is that of less than two.
ENOUGH_PROCESSORS = 1.8


def program():
    return Path(sys.argv[0]).name


def refuse(sentence):
    """Ends the program as after a usage error."""
    print(f"{program()}: {sentence}", file=sys.stderr)
    sys.exit(2)


def count(number):
    return f"{number:,.0f}"


def rounds_text(rounds):
    return "one round" if rounds == 1 else f"medians of {rounds} rounds"


def table(head, lines, align="---"):
    """Lines of Markdown; `align` is that of all columns but the first."""
    yield "| " + " | ".join(head) + " |"
    yield "|---" + f"|{align}" * (len(head) - 1) + "|"
    for line in lines:
        yield "| " + " | ".join(str(cell) for cell in line) + " |"


def new_figure(rows, columns, size):
    """(figure, panels) by matplotlib of the Debian package, which only Debian's Python finds."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise SystemExit(f"{program()}: no matplotlib; install the package python3-matplotlib") from None
    matplotlib.use("svg")
    import matplotlib.pyplot as plot

    # The same bytes each time: names of elements from a fixed salt, letters left to the reader's fonts.
    plot.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "gossamer", "font.family": "sans-serif", "font.size": 9,
        "axes.titlesize": 10, "text.color": TEXT, "axes.labelcolor": TEXT, "axes.edgecolor": TEXT,
        "xtick.color": TEXT, "ytick.color": TEXT, "axes.spines.top": False, "axes.spines.right": False,
    })
    return plot.subplots(rows, columns, figsize=size, layout="constrained")


def tenth(number):
    return f"{float(number.group()):.1f}"


def save(figure, file):
    """Writes the SVG, without a date."""
    drawing = io.StringIO()
    figure.savefig(drawing, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    # A tenth of a point is as much as anybody sees. Only inside of tags: what stands between them is for people.
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"-?\d+\.\d\d+", tenth, tag.group()), drawing.getvalue())
    Path(file).write_text("".join(f"{line.strip()}\n" for line in text.splitlines()), encoding="utf-8")
