"""Directories at rest: what is in them, and whose they are. Between files and what is made of them."""
