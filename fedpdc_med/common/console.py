"""The consoles of all commands: text from a run is shown literally, never as markup or terminal control codes."""

import re

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment

# Control characters except tabs and line ends, and characters that change the direction of writing.
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def shown(text: str) -> str:
    return OBEYED.sub("\ufffd", text)


def make(stderr: bool = False) -> Console:
    made = Console(stderr=stderr, markup=False, emoji=False)
    made.push_render_hook(_ShownOnly())
    return made


class _ShownOnly(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Shown(one) for one in renderables]


class _Shown:
    """Something to print; rich's own colours and line ends are not part of its text and are kept."""

    def __init__(self, printed: ConsoleRenderable) -> None:
        self.printed = printed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.printed, options):
            yield segment if segment.control else Segment(shown(segment.text), segment.style)


console, errors = make(), make(stderr=True)
