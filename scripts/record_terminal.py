"""Makes docs/images/terminal.svg: what `levelset tour` prints, recorded from a real run. Run by `make images`."""

import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

__all__ = ["main"]

ROOT = Path(__file__).parent.parent
IMAGE = ROOT / "docs/images/terminal.svg"
WIDTH = 118
COLOURS = {
    "passed": "green",
    "repaired": "green",
    "applied": "green",
    "outside": "yellow",
    "forgetful": "red",
    "repairing": "green",
}


def main() -> None:
    """Runs the tour, and writes the image."""
    command = [str(Path(sys.executable).parent / "levelset"), "tour"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, timeout=120).stdout
    console = Console(record=True, width=WIDTH, file=Path("/dev/null").open("w", encoding="utf-8"))  # noqa: SIM115
    console.print(Text("$ levelset tour", style="bold"))
    for line in printed.splitlines()[:-1]:
        console.print(_coloured(line))
    # No fonts from a network: a page that shows the image must not load anything.
    svg = console.export_svg(title="levelset tour")
    IMAGE.write_text(_without_fonts(svg), encoding="utf-8")


def _coloured(line: str) -> Text:
    text = Text(line, style="bold" if line[:1].isdigit() else "")
    word = line.split(maxsplit=1)[0].rstrip(":") if line.strip() else ""
    if word in COLOURS:
        at = line.index(word)
        text.stylize(COLOURS[word], at, at + len(word))
    return text


def _without_fonts(svg: str) -> str:
    """The image with the reader's own monospaced font."""
    parts = svg.split("@font-face")
    rest = [part.split("}", 1)[1] for part in parts[1:]]
    return "".join([parts[0], *rest]).replace("Fira Code, monospace", "monospace").replace("Fira Code", "monospace")


if __name__ == "__main__":
    main()
