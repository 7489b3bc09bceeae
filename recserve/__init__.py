"""recserve: an online-serving backend for recommendations."""

from importlib.metadata import version

__version__ = version("recserve")
