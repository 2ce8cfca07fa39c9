"""How does a transformer know where a token is? The library behind the notebooks."""

__version__ = "0.1.0"
