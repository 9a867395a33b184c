"""What a command prints, as a picture: an SVG that needs nothing else, for a README."""

from __future__ import annotations

import io
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from cnp_router.files import atomic_write

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["write_picture"]

# The placeholders are those of rich, but for the title and the description. A picture is on a page
# of any colour, so it brings its own background.
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{width}} {{height}}" role="img" \
aria-labelledby="{{unique_id}}-name {{unique_id}}-says">
<title id="{{unique_id}}-name">{title}</title>
<desc id="{{unique_id}}-says">{says}</desc>
<style>
.{{unique_id}}-matrix {{{{ font: {{char_height}}px/{{line_height}}px ui-monospace, \
"DejaVu Sans Mono", Menlo, Consolas, monospace; }}}}
.{{unique_id}}-title {{{{ font: 16px sans-serif; }}}}
{{styles}}
</style>
<defs>
<clipPath id="{{unique_id}}-clip-terminal"><rect x="0" y="0" width="{{terminal_width}}" \
height="{{terminal_height}}"/></clipPath>
{{lines}}
</defs>
{{chrome}}
<g transform="translate({{terminal_x}}, {{terminal_y}})">
{{backgrounds}}
<g class="{{unique_id}}-matrix">
{{matrix}}
</g>
</g>
</svg>
"""
_NAME = "cnp-router"
_ASPECT = 0.602  # width to height of a character in the usual fonts


def write_picture(recorder: Console, path: Path, *, title: str, says: str) -> None:
    """Write what was recorded (see `output.recording`) as an SVG file, atomically.

    `title` stands above it; `says` is what someone learns of it who cannot see it.
    """
    for_format = (escape(text).replace("{", "{{").replace("}", "}}") for text in (title, says))
    form = _FORMAT.format(**dict(zip(("title", "says"), for_format, strict=True)))
    drawn = recorder.export_svg(
        title=title, code_format=form, font_aspect_ratio=_ASPECT, unique_id=_NAME
    )
    with atomic_write(path) as file:
        file.write("\n".join(line.strip() for line in io.StringIO(drawn) if line.strip()) + "\n")
