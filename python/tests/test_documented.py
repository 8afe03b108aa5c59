"""docs/python.md, docs/pytorch.md and README.md: what their Python snippets show is what comes out."""
import doctest
import os
import pathlib
import re

import pytest

SOURCE = pathlib.Path(os.environ.get("SOFTMAX_SOURCE", pathlib.Path(__file__).parents[2]))


@pytest.mark.parametrize("page", ["docs/python.md", "docs/pytorch.md", "README.md"])
def test_snippets(page):
    snippets = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", (SOURCE / page).read_text(), re.S | re.M))
    session = doctest.DocTestParser().get_doctest(snippets, {}, page, page, 0)
    assert session.examples
    assert doctest.DocTestRunner().run(session).failed == 0
