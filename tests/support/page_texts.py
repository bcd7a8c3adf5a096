"""The texts of a report's or a lab's page, for tests of its languages."""

import re
from typing import Final

TEXTS: Final = """(() => {
  const data = "code, bdi, script, style, noscript, [translate=no]";
  const kinds = NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT;
  const texts = [], all = document.createTreeWalker(document.documentElement, kinds);
  while (all.nextNode()) {
    const one = all.currentNode;
    if ((one.parentElement ?? one).closest(data)) continue;
    texts.push(one.nodeType === Node.TEXT_NODE ? one.data : one.getAttribute("aria-label") ?? "");
  }
  return texts;
})()"""
"""Collects all that is read on the page, but for names and other data."""
WORD: Final = re.compile("[a-z]{3}")
CHINESE: Final = re.compile("[\u4e00-\u9fff]")
