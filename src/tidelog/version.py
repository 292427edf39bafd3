"""The version of tidelog: the only place that has it."""

__all__ = ["__version__"]

__version__ = "0.1.0"
