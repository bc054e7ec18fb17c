"""Split a Markdown page into sentences, to measure their length."""

from __future__ import annotations

import re


def sentences(markdown: str) -> list[str]:
    """Return the sentences of a page without headings, tables and code blocks. List items are sentences of their own.

    >>> sentences("# Title\\n\\nOne `a.b` two. Three\\nfour:\\n\\n    code\\n\\n- five\\n- six\\n")
    ['One `a.b` two.', 'Three four:', 'five', 'six']
    """
    kept = re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    blocks: list[str] = [""]
    for line in kept.splitlines():
        text = line.strip()
        if not text or re.match(r"#|\||    (?! )(?! *[-*] )|\s{7,}", line):
            blocks.append("")
        elif item := re.match(r"(?:[-*]|\d+\.) (.*)", text):
            blocks.append(item[1])
        else:
            blocks[-1] = f"{blocks[-1]} {text}".strip()
    return [sentence for block in blocks for sentence in re.split(r"(?<=[.!?])\s+", block) if sentence]


def words(sentence: str) -> int:
    """Count the words of a sentence. Inline code and the text of a link count as they are read."""
    plain = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "", sentence))
    return len([word for word in plain.split() if re.search(r"\w", word)])
