"""Split a Markdown page into sentences, to measure them."""

from __future__ import annotations

import re


def prose_of(text: str) -> str:
    """The text without code blocks, comments, link targets and inline code, which counts as one word."""
    text = re.sub(r"<!--.*?-->|^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?: {4}|\t)(?! *[-*\d]).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`[^`]*`", "Code", text)


def sentences_of(text: str) -> list[str]:
    """The sentences of a page. A heading, an item of a list and a cell of a table each end one.

    >>> sentences_of("# Start\\n\\nRun it. Then look at\\nthe page: it is live.\\n\\n- one\\n- two\\n")
    ['Start', 'Run it', 'Then look at the page: it is live', 'one', 'two']
    """
    blocks: list[str] = []
    for line in prose_of(text).splitlines():
        stripped = line.strip()
        if re.match(r"\|[-| :]+\|$", stripped):
            continue
        if stripped.startswith("|"):
            blocks += [cell.strip() for cell in stripped.strip("|").split("|")] + [""]
        elif not stripped or re.match(r"(#+|[-*]|\d+\.) ", stripped):
            blocks += ["", re.sub(r"^(#+|[-*]|\d+\.) ", "", stripped)]
        elif blocks:
            blocks[-1] += f" {stripped}"
        else:
            blocks.append(stripped)
    paragraphs = [sentence.strip(" .*_") for block in blocks for sentence in re.split(r"(?<=[.!?])\s+(?=[^a-z])", block)]
    return [sentence for sentence in paragraphs if re.search(r"\w", sentence)]


def words_of(sentence: str) -> int:
    return len(re.findall(r"[\w'%@/+.=-]+", sentence))
