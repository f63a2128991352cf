"""Configuration of the documentation site. `make docs` builds it; every page works offline from a file:// address."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

project = "lppm-sim"
author = "The lppm-sim contributors"
project_copyright = "The lppm-sim contributors"
release = version = installed_version("lppm-sim")
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_click",
    "generated_content",
    "local_mathjax",
    "offline_check",
    "plain_docstrings",
]
exclude_patterns = ["_build", "_ext", "reference/messages.d", "**/.ipynb_checkpoints"]

# MyST Markdown. Anchors of headings follow GitHub, so that links work on both.
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# Notebooks are MyST text files that run when the site is built. One that fails is a warning, which fails the build.
nb_execution_mode = "cache"
nb_execution_timeout = 600
nb_execution_show_tb = True
# `sim.cli` sets this variable for worker processes. Kernels inherit it, and must import from the current folder.
os.environ["PYTHONSAFEPATH"] = ""

# Python API. Docstrings write names in single backticks.
default_role = "code"
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90

# Broken references are errors (-n). Types of other packages are not linked: their inventories need the network.
nitpick_ignore_regex = [
    # The standard library, and packages whose documentation is elsewhere.
    (r"py:.*", r"(collections|typing|pathlib|os|contextlib|types|datetime|builtins|abc|enum)(\..*)?"),
    (r"py:.*", r"(numpy|np|pandas|pd|pyarrow|pa|networkx|nx|matplotlib|simpy|pydantic|click|scipy|IPython)(\..*)?"),
    # Names that are imported from these packages and written without their module.
    (r"py:.*", r"(Path|PathLike|Any|Callable|Iterable|Iterator|Sequence|Mapping|Literal|Generator|NDArray|Protocol)"),
    (r"py:.*", r"(DataFrame|Figure|Axes|Table|BaseModel|ConfigDict|Graph|DiGraph|NamedTuple|Self|TypeGuard)"),
    # Array types: aliases of numpy types, explained on the page of the Python API.
    (r"py:.*", r"(sim\.interfaces\.)?(FloatArray|IntArray|BoolArray|ArrayLike)"),
    # Fields of dataclasses whose names begin with an underscore.
    (r"py:.*", r"choosing\.Choice"),
    # Beginnings of generic types that the parser of signatures splits at a comma.
    (r"py:.*", r"Mapping\[str"),
    # Type variables.
    (r"py:.*", r"(sim\..*\.)?(T|ComponentT|ValueT|ParametersClass)"),
    # Values of literal types and defaults in signatures, for example Literal["csv"].
    (r"py:.*", r"(optional|None|True|False|\d.*|'.*'|\".*\")"),
    # Classes and type aliases that appear in signatures and are not public: shown without a link.
    (r"py:.*", r"sim\..*"),
    (r"py:class", r"[A-Z]\w*"),
]

# HTML.
html_theme = "pydata_sphinx_theme"
html_title = "lppm-sim"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
# Summaries of search results are fetched from the pages, which browsers forbid at file:// addresses.
html_show_search_summary = False
html_theme_options = {
    "logo": {"text": "lppm-sim"},
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "get_started": []}
html_context = {"default_mode": "auto"}

# Buttons that copy commands leave out the prompts.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
