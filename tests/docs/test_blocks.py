"""Code blocks of pages: fences, directives, markers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks, is_notebook
from tests.docs.page_session import PageError, Session


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "page.md"


def test_fences_captions_and_markers(page: Path) -> None:
    page.write_text(
        "# Page\n\n% not run: needs a cluster\n```bash\nsbatch x\n```\n\n"
        "```{code-block} yaml\n:caption: mine.yaml\n\nusers: {}\n```\n\n```{note}\ntext\n```\n"
    )
    assert blocks(page) == [
        Block("bash", "sbatch x\n", 4, markers={"not run": "needs a cluster"}),
        Block("yaml", "users: {}\n", 8, caption="mine.yaml"),
    ]


@pytest.mark.parametrize("text", ["    indented\n", "% not ran: because\n```bash\nx\n```\n"])
def test_code_that_would_not_be_tested_is_an_error(text: str, page: Path) -> None:
    page.write_text(f"# Page\n\n{text}")
    with pytest.raises(ValueError, match=r"^line 3\b"):
        blocks(page)


def test_notebooks_are_recognized_by_their_header(page: Path) -> None:
    page.write_text("---\nkernelspec:\n  name: python3\n---\n\n# Notebook\n")
    assert is_notebook(page)
    page.write_text("---\nhtml_theme.sidebar: false\n---\n\n# Page\n")
    assert not is_notebook(page)


def test_python_blocks_share_their_variables(page: Path) -> None:
    page.write_text("```python\nx = 1\n```\n\n```python\nassert x == 1\n```\n")
    Session(page).run()


@pytest.mark.parametrize(
    "block",
    [
        "```python\nassert False\n```",
        "% needs: numpy\n```python\nassert False\n```",
        "```bash\ncurl example.org\n```",
        "```bash\nlppm-sim list nothing\n```",
        "% exit code: 1\n```bash\nlppm-sim list nothing\n```",
        "```yaml\nusers: {count: none}\n```",
        "% within: users.mobility\n```yaml\nkind: nothing\n```",
        "```rust\nmain\n```",
    ],
)
def test_a_block_that_fails_is_reported_with_its_line(block: str, page: Path) -> None:
    page.write_text(f"# Page\n\n{block}\n")
    with pytest.raises(PageError, match=r"^page\.md:[34]: "):
        Session(page).run()


@pytest.mark.parametrize(
    "block",
    [
        "% exit code: 2\n```bash\nlppm-sim list nothing\n```",
        "```bash\nlppm-sim list design > kinds.txt\n```",
        "```yaml\nusers: {count: 3, queries: 5, mobility: commuters}\n```",
        "% within: users.mobility\n```yaml\nkind: taxis\n```",
        "```text\nanything\n```",
        "% needs: numpy, no_such_module\n```python\nassert False\n```",
    ],
)
def test_a_block_that_works(block: str, page: Path) -> None:
    page.write_text(f"# Page\n\n{block}\n")
    Session(page).run()
