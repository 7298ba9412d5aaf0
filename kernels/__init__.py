"""Operators of benchfarm; imports torch only, and only inside submodules."""

# transformers asks an installed `kernels` package for its version; "0" tells it that this is not
# Hugging Face's.
__version__ = "0"
