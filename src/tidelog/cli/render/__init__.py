"""How results look: tables, lines, JSON, progress."""
