"""This module is where globs were: see `formats/globs.py`."""

from sdaqf_tasks.formats.globs import compiled, matches

__all__ = ["compiled", "matches"]
