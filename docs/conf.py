"""Settings of the documentation site: ``make docs`` builds it without a network."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

import tpnn

project = "tpnn"
author = "The tpnn developers"
copyright = author
release = version = tpnn.__version__

for name in ("distributed", "metrics", "mlflow", "plots"):  # public modules that live in rooms
    sys.modules[f"tpnn.{name}"] = getattr(tpnn, name)

sys.path.append(str(Path(__file__).parent))

extensions = [
    "block_output",
    "live_reports",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "recipes/*.ipynb", "recipes/*.py", "recipes/*.md5"]
templates_path = ["_templates"]
nitpicky = True  # a reference that leads nowhere is an error
show_warning_types = True
suppress_warnings = ["config.cache"]  # the gallery's settings hold functions

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # docstrings name the types in words
numpydoc_show_class_members = False  # methods stand on the page of their class

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "recipes",
    "abort_on_example_error": True,
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "api/examples",
    "doc_module": ("tpnn",),
    "reference_url": {"tpnn": None},
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "capture_repr": (),  # what is printed, not what an expression returns
}
warnings.filterwarnings("ignore", message="The set_(bad|over|under) function")  # import shap

html_theme = "pydata_sphinx_theme"
html_title = f"tpnn {version}"
html_favicon = "_static/favicon.svg"
copybutton_selector = "div.highlight-python pre"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_sphinx = False
html_copy_source = False
html_sidebars: dict[str, list[str]] = {"index": [], "start": []}
html_math_renderer = "mathml"
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def _inline_math(translator: Any, node: Any) -> None:
    """Write a formula as MathML, which browsers show without any script."""
    translator.body.append(tex2mathml(node.astext()))
    raise SkipNode


def _block_math(translator: Any, node: Any) -> None:
    formula = tex2mathml(node.astext(), as_block=True)
    translator.body.append(f'<div class="formula">{formula}</div>')
    raise SkipNode


def _skip_field(_: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the fields of named tuples: their class describes them."""
    return True if type(value).__name__ == "_tuplegetter" else None


def _leave_out_of_search(_: Any, page: str, source: list[str]) -> None:
    """Lead searches to the guide, not to the lab notebook."""
    if page.startswith("lab/") or page == "paper":
        source[0] = f"---\nno-search: true\n---\n\n{source[0]}"


def setup(app: Any) -> None:
    """Add the renderer of formulas and the rules for named tuples and for searches."""
    app.connect("source-read", _leave_out_of_search)
    app.connect("autodoc-skip-member", _skip_field)
    app.add_html_math_renderer("mathml", (_inline_math, None), (_block_math, None))
