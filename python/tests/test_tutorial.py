"""docs/tutorial.md: its snippets print what the page shows, and every picture it names is there."""

import doctest
import pathlib
import re

import pytest

pytest.importorskip("torch")

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tutorial.md").read_text()


def test_snippets():
    snippets = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", PAGE, re.S | re.M))
    session = doctest.DocTestParser().get_doctest(snippets, {}, "tutorial", str(DOCS / "tutorial.md"), 0)
    assert len(session.examples) > 50
    assert doctest.DocTestRunner().run(session).failed == 0


@pytest.mark.parametrize("picture", re.findall(r"\((tutorial/\w+\.svg)\)", PAGE))
def test_picture(picture):
    assert (DOCS / picture).read_text().rstrip().endswith("</svg>")
