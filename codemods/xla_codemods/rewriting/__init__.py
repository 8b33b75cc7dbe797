"""From edits to bytes. The only room that imports libcst."""
