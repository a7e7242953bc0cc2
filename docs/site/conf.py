"""Sphinx: the site of make_site.py.  Nothing of it comes from another server."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import surveysynth

project = "surveysynth"
author = "The surveysynth authors"
copyright = "the surveysynth authors, BSD-3-Clause"
version = release = surveysynth.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinxcontrib.typer",
]
root_doc = "index"
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "attrs_block"]
myst_heading_anchors = 4
nb_custom_formats = {".py": "notebooks.executed"}  # read with their output, so that nothing is left to run
nb_execution_mode = "off"
nb_ipywidgets_js = {}
nb_output_stderr = "remove"
nb_merge_streams = True

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say them, with shapes and units
numpydoc_show_class_members = False
python_maximum_signature_line_length = 88

html_theme = "pydata_sphinx_theme"
html_title = "surveysynth"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"gallery": [], "genindex": []}
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_depth": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
}


def bars_are_absolute_values(app, what, name, thing, options, lines):
    """Docstrings write |log p|, which reStructuredText would take for the name of a substitution."""
    code = re.compile(r"``.*?``|^ *(?:>>>|\.\.\. ).*")
    for number, line in enumerate(lines):
        kept = code.findall(line)
        lines[number] = "".join(
            part.replace("|", r"\|") + kept_part for part, kept_part in zip(code.split(line), [*kept, ""], strict=True)
        )


def setup(app):
    app.connect("autodoc-process-docstring", bars_are_absolute_values)
