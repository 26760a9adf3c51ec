"""The Jinja2 templates: every text for people that is longer than a line.

They lie in ``templates/`` at the top of the source tree, and in ``aitune/_templates`` of an installed wheel. Undefined
values are errors, not blanks. Templates carry layout and comments; decisions are made before rendering.
"""

from __future__ import annotations

import functools
from pathlib import Path

import jinja2

from aitune.triton.literals import comment, quote, quote_lines

__all__ = ["render_template", "template_folder"]

_PACKAGE = Path(__file__).resolve().parent.parent


def template_folder(package: Path = _PACKAGE) -> Path:
    """The folder with the templates: the wheel's, else the source tree's.

    Args:
        package: Folder of the ``aitune`` package.
    """
    installed = package / "_templates"
    return installed if installed.is_dir() else package.parent / "templates"


def render_template(name: str, /, **values: object) -> str:
    """The text of the template ``name``; HTML is escaped, other text is not.

    Raises:
        jinja2.UndefinedError: If the template names a value that was not given.
    """
    return _environment().get_template(name).render(**values)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder()),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(["html", "html.j2"], default=False),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(quote=quote, quote_lines=quote_lines, comment=comment)
    return environment
